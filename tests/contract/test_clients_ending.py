"""How turns end that have no answer, and whose conversation is whose, through the real packages over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from providers.base import Asked, Step
from providers.clients import KINDS, open_side
from toolrun import SideEffects, ToolExecutor
from toolrun.clients import Ended, Text, TurnLimits

STREAMED = [kind for kind in KINDS if "streamed" in kind]


@pytest.fixture
def ran(executor: ToolExecutor) -> list[int]:
    """The numbers that the tool was called with."""
    numbers: list[int] = []

    @executor.manager.add
    async def count(number: int) -> int:
        """Count."""
        numbers.append(number)
        return number

    return numbers


@pytest.mark.parametrize(
    ("kind", "stop", "ended"),
    [
        ("anthropic streamed", "refusal", Ended.REFUSED),
        ("anthropic whole", "refusal", Ended.REFUSED),
        ("openai streamed", "content_filter", Ended.FILTERED),
        ("openai whole", "content_filter", Ended.FILTERED),
        ("ollama streamed", "content_filter", Ended.FILTERED),
    ],
)
@pytest.mark.parametrize("rounds", [0, 3], ids=["in the last request", "in a round"])
async def test_calls_of_an_answer_that_was_refused_or_filtered_do_not_run(
    executor: ToolExecutor, ran: list[int], kind: str, stop: str, ended: Ended, rounds: int
) -> None:
    with open_side(kind) as side:
        side.server.play(Step(text="I w", calls=[Asked("count", {"number": 1})], stop=stop), Step(text="Hello."))
        client = side.client(executor, limits=TurnLimits(rounds=rounds))
        reply = await client.query("Do it.")
        assert (reply.ended, reply.text, ran) == (ended, "I w", [])
        assert [it.result.side_effects for it in reply.calls] == [SideEffects.NOT_STARTED]
        assert (await client.query("Hello?", history=reply.messages)).text == "Hello."
        assert side.results(1) == [f"Error: {client.wording.stopped}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nothing", ["", " \n"])
async def test_an_empty_answer_is_asked_for_once_more(
    executor: ToolExecutor, ran: list[int], kind: str, nothing: str
) -> None:
    with open_side(kind) as side:
        side.server.play(Step(calls=[Asked("count", {"number": 1})]), Step(text=nothing), Step(text="One."))
        client = side.client(executor)
        reply = await client.query("Count.")
        assert (reply.text, reply.ended, ran) == ("One.", Ended.ANSWER, [1])
        assert side.said(2)[-1] == client.wording.ask_after_empty
        side.server.play(Step(text=nothing), Step(text=nothing), Step(text="Yes."))
        silent = await client.query("And?", history=reply.messages)
        assert (silent.text.strip(), silent.ended) == ("", Ended.EMPTY)
        assert (await client.query("Hello?", history=silent.messages)).text == "Yes."


@pytest.mark.parametrize("kind", STREAMED)
async def test_two_turns_of_one_client_that_are_cancelled_keep_their_own_conversations(
    executor: ToolExecutor, kind: str
) -> None:
    both, met = asyncio.Event(), []

    @executor.manager.add
    async def wait(name: str) -> None:
        """Wait for ever."""
        met.append(name)
        if len(met) == 2:
            both.set()
        await asyncio.Event().wait()

    def script(body: dict[str, Any]) -> Step:
        name = "Ada" if "I am Ada." in str(body) else "Bob"
        return Step(calls=[Asked("wait", {"name": name})])

    with open_side(kind) as side:
        side.server.play(script, script)
        client = side.client(executor)
        turns = [client.turn("I am Ada."), client.turn("I am Bob.")]
        running = [asyncio.create_task(turn.run()) for turn in turns]
        await asyncio.wait_for(both.wait(), 20)
        for task in running:
            task.cancel()
        await asyncio.wait(running)
    for turn, name in zip(turns, ("Ada", "Bob"), strict=True):
        assert turn.interrupted is not None
        question, asked, result = turn.interrupted
        assert question.content == f"I am {name}."
        assert asked.tool_calls[0]["args"] == {"name": name}  # type: ignore[attr-defined]
        assert result.content == f"Error: {client.wording.interrupted}"
    assert not hasattr(client, "interrupted")


async def test_usage_has_cached_and_thought_tokens(executor: ToolExecutor, ran: list[int]) -> None:
    with open_side("openai streamed") as side:
        side.server.play(Step(calls=[Asked("count", {"number": 1})]), Step(text="One."))
        usage = (await side.client(executor).query("Count.")).usage
        assert (usage.input_tokens, usage.output_tokens) == (80, 18)
        assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (60, 0, 10)
    with open_side("anthropic streamed") as side:
        side.server.cached = (7, 5)  # type: ignore[attr-defined]
        side.server.play(Step(text="One."))
        usage = (await side.client(executor).query("Count.")).usage
        assert (usage.cache_read_tokens, usage.cache_write_tokens) == (7, 5)
        assert usage.input_tokens > 12


@pytest.mark.parametrize("kind", ["ollama streamed", "ollama whole"])
async def test_a_call_that_a_model_of_ollama_writes_as_text_is_run_and_not_shown(
    executor: ToolExecutor, ran: list[int], kind: str
) -> None:
    with open_side(kind) as side:
        text = '```json\n{"name": "count", "arguments": {"number": 4}}\n```'
        side.server.play(Step(text=text), Step(text="Four."))
        events = [event async for event in side.client(executor).stream("Count.")]
        assert ran == [4]
        assert "".join(event.text for event in events if isinstance(event, Text)) == "Four."
        asked = side.server.bodies[1]["messages"][1]
        assert asked["tool_calls"] == [{"function": {"name": "count", "arguments": {"number": 4}}}]
        assert not asked.get("content")
        assert side.results(1) == ["4"]


@pytest.mark.parametrize("kind", ["anthropic streamed", "openai streamed"])
async def test_the_same_text_of_other_providers_is_an_answer(executor: ToolExecutor, ran: list[int], kind: str) -> None:
    with open_side(kind) as side:
        text = '{"name": "count", "arguments": {"number": 4}}'
        side.server.play(Step(text=text))
        reply = await side.client(executor).query("How would you call it?")
        assert (reply.text, ran) == (text, [])


async def test_a_text_that_names_no_tool_or_comes_after_the_last_round_is_an_answer(
    executor: ToolExecutor, ran: list[int]
) -> None:
    with open_side("ollama streamed") as side:
        unknown = '{"name": "nobody", "arguments": {}}'
        side.server.play(Step(text=unknown))
        events = [event async for event in side.client(executor).stream("Count.")]
        assert "".join(event.text for event in events if isinstance(event, Text)) == unknown
        known = '{"name": "count", "arguments": {"number": 4}}'
        side.server.play(Step(text=known))
        reply = await side.client(executor, limits=TurnLimits(rounds=0)).query("Count.")
        assert (reply.text, ran) == (known, [])
