"""What a question may ask for, through the provider packages over HTTP: types, choices, toolsets, events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from providers.base import Asked, Step
from providers.clients import Side, open_side
from toolrun import ToolCall, ToolExecutor, ToolManager, UsageError
from toolrun.clients import Ended, ModelClient, ModelReplyError, Text, Thought, ToolArguments, TurnLimits
from toolrun.testing import Said, ScriptedModel


@pytest.fixture
def tools(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @executor.manager.add
    async def subtract(a: int, b: int) -> int:
        """Subtract."""
        return a - b


pytestmark = pytest.mark.usefixtures("tools")


class Sum(BaseModel):
    total: int
    words: list[str] = Field(default_factory=list)

    @field_validator("total")
    @classmethod
    def is_small(cls, value: int) -> int:
        if value > 100:
            raise ValueError("it is over 100")
        return value


async def test_a_reply_has_the_type_that_was_asked_for(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(calls=[Asked("add", {"a": 1, "b": 2})]), Step(text='```json\n{"total": "3"}\n```'))
    reply = await side.client(executor, system="Be brief.").query("1 + 2?", reply_type=Sum)
    assert reply.value == Sum(total=3)
    assert reply.ended is Ended.ANSWER
    system = str(side.server.bodies[0])
    assert "Be brief." in system
    assert "total" in system


async def test_an_answer_of_another_type_is_asked_for_once_more(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(text="It is three."), Step(text='{"total": 3, "words": ["three"]}'))
    reply = await side.client(executor).query("1 + 2?", reply_type=Sum)
    assert reply.value == Sum(total=3, words=["three"])
    assert "does not fit the JSON Schema" in side.said(1)[-1]
    assert side.offered(1) == []


async def test_two_answers_of_another_type_are_an_error_with_the_conversation(executor: ToolExecutor) -> None:
    model = ScriptedModel(['{"total": 101}', '{"total": 102}'])
    with pytest.raises(ModelReplyError, match=r"does not fit Sum, twice: total: .*it is over 100") as caught:
        await ModelClient(model, executor).query("?", reply_type=Sum)
    assert [message.type for message in caught.value.messages] == ["human", "ai", "human", "ai"]
    assert "it is over 100" in str(model.requests[1][-1].text)


async def test_a_json_schema_is_a_type_too_and_thoughts_are_no_part_of_the_answer(executor: ToolExecutor) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    model = ScriptedModel(['<think>{"ok": false}?</think>{"ok": "true"}'])
    assert (await ModelClient(model, executor).query("?", reply_type=schema)).value == {"ok": True}


async def test_an_answer_that_was_refused_has_no_value(executor: ToolExecutor) -> None:
    model = ScriptedModel([Said("I will not.", stop="content_filter")])
    reply = await ModelClient(model, executor).query("?", reply_type=Sum)
    assert (reply.ended, reply.value) == (Ended.FILTERED, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reply_type": 5}, "reply_type must be a pydantic model or a JSON Schema, not int"),
        ({"reply_type": {"type": "array"}}, "reply_type cannot be used"),
        ({"toolset": ["ad"]}, "There is no tool 'ad'; did you mean 'add'"),
        ({"toolset": "add"}, "toolset must be the names of tools"),
        ({"tool_choice": "sub"}, "There is no tool 'sub'"),
        ({"toolset": ["add"], "tool_choice": "subtract"}, "not in the toolset"),
    ],
)
async def test_what_cannot_be_asked_is_refused_before_the_model_is(
    executor: ToolExecutor, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await ModelClient(ScriptedModel(), executor).query("?", **options)
    with pytest.raises(TypeError, match="there is no option 'sytem'; did you mean 'system'"):
        await ModelClient(ScriptedModel(), executor).query("?", sytem="Be brief.")  # type: ignore[call-arg]  # wrong


async def test_tools_outside_of_the_toolset_are_neither_offered_nor_run(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(calls=[Asked("subtract", {"a": 2, "b": 1})]), Step(text="No."), Step(text="All."))
    client = side.client(executor)
    reply = await client.query("2 - 1?", toolset=["add"])
    assert side.offered(0) == ["add"]
    assert side.results(1)[0].startswith('Error: Unknown tool "subtract"')
    assert not reply.calls[0].result.success
    await client.query("And now?")
    assert side.offered(2) == ["add", "subtract"]


async def test_a_call_can_be_forced_once_and_forbidden_for_the_whole_question(
    side: Side, executor: ToolExecutor
) -> None:
    if side.provider == "ollama":
        with pytest.raises(UsageError, match="Ollama cannot be made to call a tool"):
            await side.client(executor).query("1 + 2?", tool_choice="required")
        side.server.play(Step(text="3"))
        await side.client(executor).query("1 + 2?", tool_choice="none")
        assert side.offered(0) == []
        return
    call = Step(calls=[Asked("add", {"a": 1, "b": 2})])
    side.server.play(call, Step(text="3"), call, Step(text="3"), Step(text="3"))
    client = side.client(executor)
    await client.query("1 + 2?", tool_choice="add")
    await client.query("1 + 2?", tool_choice="required")
    await client.query("1 + 2?", tool_choice="none")
    named, after, required, _, forbidden = map(_choice, side.server.bodies)
    assert "add" in named
    assert after == ""
    assert any(word in required for word in ("any", "required", "ANY"))
    assert "none" in forbidden.lower()


def _choice(body: Any) -> str:
    found = body.get("tool_choice") or body.get("toolConfig") or ""
    return "" if found == "auto" else str(found)


async def test_instructions_and_limits_are_those_of_the_question(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(text="Nothing."), Step(text="Hello."))
    client = side.client(executor, system="Be brief.")
    reply = await client.query("1 + 2?", system="Be rude.", limits=TurnLimits(rounds=0))
    assert reply.ended is Ended.ROUNDS
    await client.query("Hello?")
    first, second = map(str, side.server.bodies)
    assert "Be rude." in first
    assert "Be brief." not in first
    assert "Be brief." in second


@pytest.mark.parametrize("kind", ["anthropic streamed", "google streamed", "ollama streamed"])
async def test_thoughts_are_events_and_no_text(executor: ToolExecutor, kind: str) -> None:
    with open_side(kind) as side:
        side.server.play(Step(thinking="Let me see, one and two.", text="It is three."))
        events = [event async for event in side.client(executor, **_thinking(side)).stream("1 + 2?")]
    assert "".join(it.text for it in events if isinstance(it, Thought)) == "Let me see, one and two."
    assert "".join(it.text for it in events if isinstance(it, Text)) == "It is three."


def _thinking(side: Side) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {"google": {"include_thoughts": True}, "ollama": {"reasoning": True}}
    return options.get(side.provider, {})


@pytest.mark.parametrize("kind", ["anthropic streamed", "openai streamed"])
async def test_arguments_are_events_while_they_stream(executor: ToolExecutor, kind: str) -> None:
    with open_side(kind) as side:
        calls = [Asked("add", {"a": 1000001, "b": 2}), Asked("subtract", {"a": 5, "b": 4})]
        side.server.play(Step(calls=calls), Step(text="Done."))
        events = [event async for event in side.client(executor).stream("Both, please.")]
    pieces = [event for event in events if isinstance(event, ToolArguments)]
    ids = list(dict.fromkeys(piece.call_id for piece in pieces))
    assert [{it.name for it in pieces if it.call_id == id} for id in ids] == [{"add"}, {"subtract"}]
    assert "".join(it.text for it in pieces if it.call_id == ids[0]).replace(" ", "") == '{"a":1000001,"b":2}'
    assert len(pieces) > 2


async def test_the_calls_of_a_reply_have_the_arguments_as_they_were_executed(executor: ToolExecutor) -> None:
    calls = Said(
        calls=[
            ToolCall("", "add", {"a": "1", "b": 2}),
            ToolCall("", "add", {"A": 3, "b": 4}),
            ToolCall("", "add", {"a": 5, "b": 6}),
            ToolCall("", "add", {"a": "x"}),
        ]
    )
    reply = await ModelClient(ScriptedModel([calls, "Done."]), executor).query("?")
    assert [it.arguments for it in reply.calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}, {"a": "x"}]
    assert reply.calls[0].call.arguments == {"a": "1", "b": 2}


def test_a_program_without_an_event_loop_asks_synchronously() -> None:
    manager = ToolManager([add_slowly])
    client = ModelClient(
        ScriptedModel([Said(calls=[ToolCall("", "add_slowly", {"a": 1, "b": 2})]), "{result}"]), ToolExecutor(manager)
    )
    events: list[str] = []
    reply = client.query_sync("1 + 2?", on_event=lambda event: events.append(event.type))
    assert reply.text == "3"
    assert "tool_finished" in events


async def add_slowly(a: int, b: int) -> int:
    """Add after a turn of the loop."""
    await asyncio.sleep(0)
    return a + b


async def test_asking_synchronously_inside_a_loop_says_what_to_do(executor: ToolExecutor) -> None:
    with pytest.raises(UsageError, match=r"await client\.query"):
        ModelClient(ScriptedModel(["Hello."]), executor).query_sync("Hello?")
