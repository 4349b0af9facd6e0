"""The loop with a scripted model: limits, repetitions, side by side, names. Providers are for the contract tests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from toolrun import SideEffects, ToolExecutor, UsageError
from toolrun.clients import Ended, ModelClient, ModelError, ModelTimeoutError, ModelUnavailableError, Text, TurnLimits
from toolrun.result import ToolCall
from toolrun.testing import Said, ScriptedModel


@pytest.fixture(autouse=True)
def tools(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def add(a: int, b: int = 0) -> int:
        """Add two integers."""
        return a + b


def add(a: int, b: int = 0) -> ToolCall:
    return ToolCall("", "add", {"a": a, "b": b})


async def ask(executor: ToolExecutor, *script: Any, **options: Any) -> Any:
    model = ScriptedModel(script)
    return model, await ModelClient(model, executor, **options).query("Go.")


async def test_the_system_prompt_is_sent_and_is_no_part_of_the_conversation(executor: ToolExecutor) -> None:
    model, reply = await ask(executor, "Hello.", system="Be kind.")
    assert model.requests[0] == [SystemMessage("Be kind."), HumanMessage("Go.")]
    assert reply.messages[0] == HumanMessage("Go.")


async def test_text_and_usage_of_all_rounds(executor: ToolExecutor) -> None:
    model, reply = await ask(executor, Said("One moment.", [add(1, 2)]), "It is {result}.")
    assert reply.text == "It is 3."
    read = sum(len(str(message.text).split()) for request in model.requests for message in request)
    assert reply.usage.input_tokens == read
    assert reply.usage.output_tokens == 2 + 10 + 3
    assert reply.usage.total_tokens == read + 15


@pytest.mark.parametrize("limit", [0, 1, 2])
async def test_calls_beyond_the_limit_are_refused_and_an_answer_is_asked_for(
    executor: ToolExecutor, limit: int
) -> None:
    script = [Said(calls=[add(1), add(2), add(3)]), "Enough."]
    model, reply = await ask(executor, *script, limits=TurnLimits(calls=limit))
    assert [it.result.success for it in reply.calls] == [True] * limit + [False] * (3 - limit)
    assert {it.result.side_effects for it in reply.calls[limit:]} == {SideEffects.NOT_STARTED}
    assert reply.ended is Ended.CALLS
    assert model.offers[1] == []
    assert "all " + str(limit) in str(model.requests[1][-1].content)


async def test_without_rounds_the_model_is_asked_without_tools_at_once(executor: ToolExecutor) -> None:
    model, reply = await ask(executor, "I know nothing.", limits=TurnLimits(rounds=0))
    assert (reply.text, reply.ended) == ("I know nothing.", Ended.ROUNDS)
    assert model.offers == [[]]


async def test_without_time_nothing_is_executed(executor: ToolExecutor) -> None:
    _, reply = await ask(executor, add(1), "Too late.", limits=TurnLimits(time=0))
    assert (reply.text, reply.ended) == ("Too late.", Ended.TIME)
    assert reply.calls[0].result.side_effects is SideEffects.NOT_STARTED


async def test_the_same_call_counts_however_its_arguments_are_ordered(executor: ToolExecutor) -> None:
    same = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}]
    script = [ToolCall("", "add", arguments) for arguments in same]
    _, reply = await ask(executor, *script, "Three.")
    assert [it.result.success for it in reply.calls] == [True, True, False]
    assert reply.ended is Ended.REPEATS


async def test_repetitions_inside_one_round_count_too(executor: ToolExecutor) -> None:
    _, reply = await ask(executor, Said(calls=[add(1), add(2), add(1), add(1)]), "Well.")
    assert [it.result.success for it in reply.calls] == [True, True, True, False]


async def test_other_arguments_and_other_turns_are_no_repetition(executor: ToolExecutor) -> None:
    model = ScriptedModel([add(1), add(2), add(3), "Six.", add(1), add(2), add(3), "Six again."])
    client = ModelClient(model, executor)
    first = await client.query("Go.")
    second = await client.query("Again.", first.messages)
    assert [first.ended, second.ended] == [Ended.ANSWER, Ended.ANSWER]


async def test_no_more_calls_run_side_by_side_than_allowed(executor: ToolExecutor) -> None:
    running, most = 0, 0

    @executor.manager.add
    async def work(number: int) -> int:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return number

    calls = [ToolCall("", "work", {"number": number}) for number in range(10)]
    _, reply = await ask(executor, Said(calls=calls), "Done.", limits=TurnLimits(parallel=3))
    assert most == 3
    assert [it.result.result for it in reply.calls] == list(range(10))


async def test_what_is_said_at_a_limit_can_be_changed(executor: ToolExecutor, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('answer_after_rounds = "Schluss nach {limit}."\n')
    model, _ = await ask(executor, add(1), "Ja.", limits=TurnLimits(rounds=1), wording=own)
    assert model.requests[1][-1].content == "Schluss nach 1."


async def test_names_go_to_the_model_as_it_takes_them_and_come_back(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def lamp() -> str:
        """Switch the lamp."""
        return "on"

    lamp.name = "home.lamp"
    executor.manager.remove("lamp")
    executor.manager.add(lamp)
    model = ScriptedModel([lambda _: ToolCall("", model.offers[0][1]["function"]["name"], {}), "It is {result}."])
    reply = await ModelClient(model, executor).query("Light!")
    assert reply.text == "It is on."
    [sent] = [it for it in model.requests[1] if isinstance(it, AIMessage)]
    assert sent.tool_calls[0]["name"] == "home_lamp"
    assert reply.calls[0].call.name == "home.lamp"


async def test_tools_that_come_and_go_are_offered_from_the_next_round_on(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def learn() -> str:
        """Learn to multiply."""

        @executor.manager.add
        async def multiply(a: int, b: int) -> int:
            """Multiply."""
            return a * b

        return "learnt"

    model, reply = await ask(
        executor, ToolCall("", "learn", {}), ToolCall("", "multiply", {"a": 6, "b": 7}), "It is {result}."
    )
    assert reply.text == "It is 42."
    assert [len(offer) for offer in model.offers] == [2, 3, 3]


async def test_without_tools_the_model_is_asked_as_it_is(executor: ToolExecutor) -> None:
    executor.manager.remove("add")
    reply = await ModelClient(FakeListChatModel(responses=["Hi."]), executor).query("Hello?")
    assert reply.text == "Hi."


async def test_a_model_that_cannot_use_tools_is_refused(executor: ToolExecutor) -> None:
    with pytest.raises(UsageError, match="FakeListChatModel cannot use tools"):
        await ModelClient(FakeListChatModel(responses=["Hi."]), executor).query("Hello?")


async def test_errors_of_the_model_carry_the_conversation(executor: ToolExecutor) -> None:
    with pytest.raises(ModelUnavailableError) as caught:
        await ask(executor, add(1), ConnectionError("gone"))
    assert [message.type for message in caught.value.messages] == ["human", "ai", "tool"]


async def test_an_unknown_error_is_a_model_error_too(executor: ToolExecutor) -> None:
    with pytest.raises(ModelError, match="ScriptedModel failed: odd"):
        await ask(executor, ZeroDivisionError("odd"))


async def test_a_script_that_is_over_says_so(executor: ToolExecutor) -> None:
    with pytest.raises(UsageError, match="has 1 answers, and this is request 2"):
        await ask(executor, add(1))


async def test_an_answer_has_its_time(executor: ToolExecutor) -> None:
    class Mute(ScriptedModel):
        async def _astream(self, *args: Any, **options: Any) -> Any:
            await asyncio.Event().wait()
            yield

    with pytest.raises(ModelTimeoutError, match=r"'scripted' took more than 0\.01 s"):
        await ModelClient(Mute(script=[]), executor, limits=TurnLimits(answer_time=0.01)).query("Hello?")


async def test_a_pause_of_the_provider_is_waited_out(executor: ToolExecutor) -> None:
    pause = AIMessage(content="Searching…", response_metadata={"stop_reason": "pause_turn"})
    model, reply = await ask(executor, pause, "Found.")
    assert reply.text == "Found."
    assert [message.type for message in model.requests[1]] == ["human", "ai"]


async def test_images_for_models_that_see_only_what_users_show(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def photograph() -> Any:
        """Take a picture."""
        return [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]

    model = ScriptedModel(
        [Said(calls=[ToolCall("", "photograph", {}), add(1)]), "Nice."], profile={"image_inputs": True}
    )
    await ModelClient(model, executor).query("Look.")
    *_, first, second, shown = model.requests[1]
    assert isinstance(first, ToolMessage)
    assert isinstance(second, ToolMessage)
    assert isinstance(shown, HumanMessage)
    assert shown.content[1] == {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


async def test_turns_of_one_client_can_overlap(executor: ToolExecutor) -> None:
    def answer(messages: Any) -> Any:
        return f"about {messages[-1].content}"

    client = ModelClient(ScriptedModel([answer], repeat=True), executor)
    replies = await asyncio.gather(*(client.query(str(number)) for number in range(20)))
    assert [reply.text for reply in replies] == [f"about {number}" for number in range(20)]


def ending(word: str = "", content: Any = "", **metadata: Any) -> AIMessage:
    reason = {"finish_reason": word} if word else {}
    call: Any = {"name": "add", "args": {"a": 1}, "id": "1", "type": "tool_call"}
    return AIMessage(content=content, tool_calls=[call], response_metadata={**reason, **metadata})


STOPPED = [
    (ending(status="incomplete", incomplete_details={"reason": "content_filter"}), Ended.FILTERED),
    (ending(stopReason="guardrail_intervened"), Ended.FILTERED),
    (ending("FinishReason.SAFETY"), Ended.FILTERED),
    (ending("ERROR_TOXIC"), Ended.FILTERED),
    (ending(content=[{"type": "refusal", "refusal": "I cannot."}]), Ended.REFUSED),
]


@pytest.mark.parametrize(("answer", "ended"), STOPPED)
@pytest.mark.parametrize("rounds", [0, 3])
async def test_calls_of_an_answer_that_was_stopped_do_not_run_whatever_the_words(
    executor: ToolExecutor, answer: AIMessage, ended: Ended, rounds: int
) -> None:
    said: list[str] = []
    client = ModelClient(ScriptedModel([answer]), executor, limits=TurnLimits(rounds=rounds))
    reply = await client.turn("Go.").run(lambda event: said.append(event.text) if isinstance(event, Text) else None)
    assert [it.result.side_effects for it in reply.calls] == [SideEffects.NOT_STARTED]
    assert reply.ended is ended
    assert reply.text == "".join(said) == ("I cannot." if ended is Ended.REFUSED else "")


async def test_a_call_that_the_limit_of_the_responses_api_cut_does_not_run(executor: ToolExecutor) -> None:
    answer = ending(incomplete_details={"reason": "max_output_tokens"})
    _, reply = await ask(executor, answer, "Sorry.")
    assert [it.result.side_effects for it in reply.calls] == [SideEffects.NOT_STARTED]


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("nothing", "ended"),
    [
        ("", Ended.EMPTY),
        (" \n", Ended.EMPTY),
        ("<think>Hm.</think>", Ended.EMPTY),
        ("<|channel|>analysis<|message|>Hm.", Ended.EMPTY),
        (Said("", stop="MALFORMED_FUNCTION_CALL"), Ended.MALFORMED),
        (Said("Hm", stop="malformed_tool_use"), Ended.MALFORMED),
    ],
)
async def test_a_model_that_says_nothing_is_asked_once_more_whatever_the_limits(
    executor: ToolExecutor, rounds: int, nothing: Any, ended: Ended
) -> None:
    model, reply = await ask(executor, nothing, nothing, limits=TurnLimits(rounds=rounds))
    assert (reply.ended, len(model.requests)) == (ended, 2)
    model, reply = await ask(executor, nothing, "Yes.", limits=TurnLimits(rounds=rounds))
    assert reply.text == "Yes."
    assert reply.ended in (Ended.ANSWER, Ended.ROUNDS)


async def test_calls_in_the_last_request_are_no_silence(executor: ToolExecutor) -> None:
    model, reply = await ask(executor, Said(calls=[add(1)]), limits=TurnLimits(rounds=0))
    assert (reply.ended, len(model.requests)) == (Ended.ROUNDS, 1)
