"""Full loops through the real provider packages over HTTP: the same behaviour with both providers, streamed and not."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from providers.base import Asked, Step
from providers.clients import Side, shape
from toolrun import ErrorKind, SideEffects, ToolContext, ToolError, ToolExecutor
from toolrun.clients import Done, Ended, Text, ToolFinished, ToolProgress, ToolStarted, TurnLimits


@pytest.fixture(autouse=True)
def tools(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @executor.manager.add
    async def fail(reason: str) -> None:
        """Fail for a reason."""
        raise ToolError(reason)


async def test_two_rounds_and_an_answer(side: Side, executor: ToolExecutor) -> None:
    side.server.play(
        Step(text="First.", calls=[Asked("add", {"a": 1, "b": 2})]),
        Step(calls=[Asked("add", {"a": 3, "b": 4})]),
        Step(text="The sums are 3 and 7."),
    )
    reply = await side.client(executor, system="Be brief.").query("What are the sums?")
    assert reply.text == "The sums are 3 and 7."
    assert reply.ended is Ended.ANSWER
    assert shape(reply.messages) == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert [(it.call.arguments, it.result.result) for it in reply.calls] == [
        ({"a": 1, "b": 2}, 3),
        ({"a": 3, "b": 4}, 7),
    ]
    assert side.results(2) == ["3", "7"]
    assert side.said(2) == (
        ["What are the sums?", "First."]
        if side.provider == "anthropic"
        else ["Be brief.", "What are the sums?", "First."][1:]
    )
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


async def test_a_reply_is_the_history_of_the_next_question(side: Side, executor: ToolExecutor) -> None:
    side.server.play(
        Step(calls=[Asked("add", {"a": 1, "b": 2})]),
        Step(text="Three."),
        Step(calls=[Asked("add", {"a": 3, "b": 4})]),
        Step(text="Seven."),
    )
    client = side.client(executor, system="Be brief.")
    first = await client.query("1 + 2?")
    second = await client.query(HumanMessage("3 + 4?"), history=first.messages)
    assert second.text == "Seven."
    assert side.said(3) == ["1 + 2?", "Three.", "3 + 4?"]
    assert side.results(3) == ["3", "7"]
    assert second.messages[: len(first.messages)] == first.messages


async def test_calls_of_a_round_run_side_by_side_and_are_answered_in_their_order(
    side: Side, executor: ToolExecutor
) -> None:
    both, arrived = asyncio.Event(), []

    @executor.manager.add
    async def meet(name: str) -> str:
        """Wait until both are there."""
        arrived.append(name)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return f"{name} met"

    side.server.play(Step(calls=[Asked("meet", {"name": "Ada"}), Asked("meet", {"name": "Bob"})]), Step(text="Fine."))
    reply = await side.client(executor).query("Let them meet.")
    assert side.results(1) == ["Ada met", "Bob met"]
    assert [it.result.success for it in reply.calls] == [True, True]


async def test_every_failure_is_an_answer_to_its_own_call(side: Side, executor: ToolExecutor) -> None:
    side.server.play(
        Step(
            calls=[
                Asked("fail", {"reason": "The lamp is broken."}),
                Asked("nonsense", {}),
                Asked("add", {"a": "x", "b": 1}),
                Asked("add", {"a": 1, "b": 1}),
            ]
        ),
        Step(text="I see."),
    )
    reply = await side.client(executor).query("Try everything.")
    broken, unknown, invalid, fine = side.results(1)
    assert broken == "Error: The lamp is broken."
    assert unknown.startswith('Error: Unknown tool "nonsense"')
    assert invalid.startswith("Error: Invalid parameters: ")
    assert fine == "2"
    messages = [message for message in reply.messages if isinstance(message, ToolMessage)]
    asked = reply.messages[1]
    assert isinstance(asked, AIMessage)
    assert [message.tool_call_id for message in messages] == [call["id"] for call in asked.tool_calls]
    assert [message.status for message in messages] == ["error", "error", "error", "success"]
    if side.provider == "anthropic":
        results = side.server.bodies[1]["messages"][2]["content"]
        assert [block["is_error"] for block in results] == [True, True, True, False]


async def test_a_tool_that_takes_too_long_is_answered_at_its_deadline(side: Side, executor: ToolExecutor) -> None:
    @executor.manager.add
    async def hang() -> None:
        """Never end."""
        await asyncio.Event().wait()

    executor.timeout = 0.05
    side.server.play(Step(calls=[Asked("hang")]), Step(text="Too slow."))
    reply = await side.client(executor).query("Hang.")
    assert reply.text == "Too slow."
    assert reply.calls[0].result.error_kind is ErrorKind.TIMEOUT
    assert side.results(1)[0].startswith("Error: ")


async def test_calls_of_an_answer_that_was_cut_off_are_not_executed(side: Side, executor: ToolExecutor) -> None:
    side.server.play(
        Step(calls=[Asked("add", {"a": 1, "b": 2}), Asked("add", {"a": 1, "b": 3})], stop=side.cut_off),
        Step(text="Sorry."),
    )
    client = side.client(executor)
    reply = await client.query("Add.")
    assert side.results(1) == [f"Error: {client.wording.cut_off}"] * 2
    assert [it.result.side_effects for it in reply.calls] == [SideEffects.NOT_STARTED] * 2
    assert reply.text == "Sorry."


async def test_an_answer_that_was_cut_off_says_so(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(text="It is a long", stop=side.cut_off))
    reply = await side.client(executor).query("Tell me.")
    assert (reply.text, reply.ended) == ("It is a long", Ended.LENGTH)


async def test_the_third_time_a_call_is_refused_and_an_answer_asked_for(side: Side, executor: ToolExecutor) -> None:
    again = Step(calls=[Asked("add", {"a": 1, "b": 2})])
    side.server.play(again, again, again, Step(text="It is 3."))
    client = side.client(executor)
    reply = await client.query("1 + 2?")
    assert side.results(3) == ["3", "3", f"Error: {client.wording.repeated.format(count=2)}"]
    assert side.said(3)[-1] == client.wording.answer_after_repeats
    assert side.offered(2) == ["add", "fail"]
    assert side.offered(3) == []
    assert (reply.text, reply.ended) == ("It is 3.", Ended.REPEATS)


async def test_after_the_last_round_an_answer_is_asked_for(side: Side, executor: ToolExecutor) -> None:
    side.server.play(
        Step(calls=[Asked("add", {"a": 1, "b": 1})]), Step(calls=[Asked("add", {"a": 1, "b": 2})]), Step(text="Enough.")
    )
    client = side.client(executor, limits=TurnLimits(rounds=2))
    reply = await client.query("Count.")
    assert (reply.text, reply.ended) == ("Enough.", Ended.ROUNDS)
    assert side.offered(2) == []
    assert side.said(2)[-1] == client.wording.answer_after_rounds.format(limit=2)


async def test_a_model_that_only_wants_tools_gets_an_end(side: Side, executor: ToolExecutor) -> None:
    side.server.play(
        Step(calls=[Asked("add", {"a": 1, "b": 1})]),
        Step(calls=[Asked("add", {"a": 1, "b": 2})]),
        Step(text="Good morning."),
    )
    client = side.client(executor, limits=TurnLimits(rounds=1))
    reply = await client.query("Count.")
    assert reply.text == client.wording.no_answer
    assert reply.calls[-1].result.side_effects is SideEffects.NOT_STARTED
    followed = await client.query("Hello?", history=reply.messages)
    assert followed.text == "Good morning."
    assert side.results(2) == ["2", f"Error: {client.wording.closed}"]


async def test_events_of_a_turn(side: Side, executor: ToolExecutor) -> None:
    @executor.manager.add
    async def walk(steps: int, context: ToolContext) -> str:
        """Walk some steps."""
        context.progress(1, steps, "going")
        await asyncio.sleep(0)
        return "there"

    side.server.play(
        Step(text="I am going to walk now.", calls=[Asked("walk", {"steps": 2})]), Step(text="I am there, finally.")
    )
    events = [event async for event in side.client(executor).stream("Walk.")]
    kinds = [event.type for event in events]
    assert [kind for kind in kinds if kind not in ("text", "tool_arguments")] == [
        "tool_started",
        "tool_progress",
        "tool_finished",
        "done",
    ]
    assert ("tool_arguments" in kinds[: kinds.index("tool_started")]) == side.streams
    assert kinds[0] == "text"
    said = "".join(event.text for event in events if isinstance(event, Text))
    assert said == "I am going to walk now.I am there, finally."
    assert (len([it for it in events if isinstance(it, Text)]) > 2) == side.streams
    [started] = [event for event in events if isinstance(event, ToolStarted)]
    [progress] = [event for event in events if isinstance(event, ToolProgress)]
    [finished] = [event for event in events if isinstance(event, ToolFinished)]
    assert started.call is progress.call is finished.call
    assert (progress.progress.message, finished.result.result) == ("going", "there")
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reply.text == "I am there, finally."
    assert done.reply.calls == (finished,)


async def test_histories_with_calls_that_were_never_answered_are_healed(side: Side, executor: ToolExecutor) -> None:
    calls = [{"name": "add", "args": {"a": 1, "b": n}, "id": f"toolu_{n}", "type": "tool_call"} for n in (1, 2)]
    history = [
        HumanMessage("Add."),
        AIMessage(content="", tool_calls=calls),
        ToolMessage(content="3", tool_call_id="toolu_2"),
        HumanMessage("Stop!"),
        ToolMessage(content="nobody asked", tool_call_id="toolu_9"),
    ]
    side.server.play(Step(text="Stopped."))
    client = side.client(executor)
    reply = await client.query("Did you?", history=history)
    assert side.results(0) == [f"Error: {client.wording.no_record}", "3"]
    assert side.said(0) == ["Add.", "Stop!", "Did you?"]
    assert shape(reply.messages) == ["human", "ai", "tool", "tool", "human", "human", "ai"]


async def test_a_conversation_moves_to_another_provider(executor: ToolExecutor, side: Side) -> None:
    from providers.clients import open_side

    other = "ollama streamed" if side.provider == "anthropic" else "anthropic streamed"
    side.server.play(
        Step(
            text="Look.",
            thinking="Hm." if side.provider == "anthropic" else "",
            calls=[Asked("add", {"a": 1, "b": 2}), Asked("no such.tool", {})],
        ),
        Step(text="Three."),
    )
    options = {"thinking": {"type": "adaptive"}} if side.provider == "anthropic" else {}
    reply = await side.client(executor, **options).query("1 + 2?")
    with open_side(other) as second:
        second.server.play(Step(text="Still three."))
        moved = await second.client(executor).query("Sure?", history=reply.messages)
        assert moved.text == "Still three."
        assert second.results(0)[0] == "3"


async def test_a_conversation_goes_on_when_its_tools_are_gone(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(calls=[Asked("add", {"a": 1, "b": 2})]), Step(text="Three."), Step(text="I cannot any more."))
    client = side.client(executor)
    reply = await client.query("1 + 2?")
    for name in ("add", "fail"):
        executor.manager.remove(name)
    assert (await client.query("3 + 4?", history=reply.messages)).text == "I cannot any more."
    assert side.offered(2) == []
