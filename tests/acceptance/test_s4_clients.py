"""S4: AI clients on LangChain's own tool calls and messages."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import StructuredTool
from langchain_ollama import ChatOllama

import toolrun.clients
from acceptance.clients import ARGUMENTS, LangChainTool, WatchedExecutor, watched
from providers.base import Asked, Step
from providers.clients import KINDS, Side, open_side, shape
from toolrun import ToolManager
from toolrun.clients import ModelClient


@pytest.fixture
def ollama() -> Iterator[Side]:
    with open_side("ollama streamed") as side:
        yield side


@pytest_asyncio.fixture
async def parts() -> AsyncIterator[tuple[WatchedExecutor, LangChainTool]]:
    executor, tool = watched()
    yield executor, tool
    await executor.close()


Parts = tuple[WatchedExecutor, LangChainTool]


class Invented(ChatOllama):
    """ChatOllama whose answers never were on any wire: their calls exist in `tool_calls` alone."""

    answers: list[Any]
    """Chunks of messages, which as such pydantic would check, and make their `tool_calls` anew."""

    async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=self.answers.pop(0))


def invented(*answers: AIMessageChunk) -> Invented:
    end = {"done": True, "done_reason": "stop"}
    for answer in answers:
        answer.response_metadata = end
    return Invented(model="qwen3:0.6b", answers=list(answers))


def joined(tool: str, streamed: dict[str, Any], *calls: Any) -> AIMessageChunk:
    """An answer whose `tool_calls` are not what was streamed, so that it shows which of the two is executed."""
    chunk = tool_call_chunk(id="streamed", name=tool, args=json.dumps(streamed), index=0)
    answer = AIMessageChunk(content="", tool_call_chunks=[chunk] * len(calls), chunk_position="last")
    answer.tool_calls = list(calls)
    return answer


def tool_call(id: str, name: str, **arguments: Any) -> Any:
    return {"id": id, "name": name, "args": arguments, "type": "tool_call"}


@pytest.mark.scenario("S4.1.1")
async def test_s4_1_1_ollama_tool_execution_with_langchain_interface(ollama: Side, parts: Parts) -> None:
    """Calls are read from `response.tool_calls`, each as `{id, name, args}`, and executed by the ToolExecutor."""
    executor, tool = parts
    ollama.server.play(Step(calls=[Asked(tool.name, ARGUMENTS)]), Step(text="On."))
    reply = await ollama.client(executor).query("Turn it on.")
    response = reply.messages[1]
    assert isinstance(response, AIMessage)
    [call] = response.tool_calls
    assert call.keys() == {"id", "name", "args", "type"}
    assert (call["name"], call["args"], call["type"]) == (tool.name, ARGUMENTS, "tool_call")
    assert executor.executed == [(tool.name, ARGUMENTS, call["id"])]
    assert tool.invoked == [ARGUMENTS]
    assert [(it.call.id, it.result.text) for it in reply.calls] == [(call["id"], "Switch One is on")]

    with open_side("ollama whole") as whole:  # an AIMessage at once, and not in chunks
        whole.server.play(Step(calls=[Asked(tool.name, ARGUMENTS)]), Step(text="On."))
        reply = await whole.client(executor).query("Turn it on.")
    response = reply.messages[1]
    assert isinstance(response, AIMessage)
    assert executor.executed[1:] == [(tool.name, ARGUMENTS, response.tool_calls[0]["id"])]

    # The same for calls that no wire has ever carried, so that there is nothing but `tool_calls` to read them from.
    off = {**ARGUMENTS, "command": "off"}
    model = invented(
        AIMessageChunk(content="", tool_calls=[tool_call("7", tool.name, **off)]), AIMessageChunk(content="Off.")
    )
    await ModelClient(model, executor).query("Turn it off.")
    assert executor.executed[2:] == [(tool.name, off, "7")]

    # And where the stream says something else, as it is not ours to join its parts.
    two = {**ARGUMENTS, "deviceName": "Switch Two"}
    model = invented(joined(tool.name, ARGUMENTS, tool_call("8", tool.name, **two)), AIMessageChunk(content="On."))
    reply = await ModelClient(model, executor).query("Turn on the second one.")
    assert executor.executed[3:] == [(tool.name, two, "8")]
    assert [message.content for message in reply.messages[2:]] == ["Switch Two is on", "On."]


@pytest.mark.scenario("S4.1.2")
async def test_s4_1_2_tool_call_loop_with_langchain_messages(ollama: Side, parts: Parts) -> None:
    """Each round adds an AIMessage with its calls and a ToolMessage for each; the next request has all of them."""
    executor, tool = parts
    off = {**ARGUMENTS, "command": "off"}
    ollama.server.play(
        Step(text="On.", calls=[Asked(tool.name, ARGUMENTS)]),
        Step(text="Off.", calls=[Asked(tool.name, off)]),
        Step(text="Done."),
    )
    reply = await ollama.client(executor).query("Blink.")
    assert [type(message) for message in reply.messages] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        AIMessage,
        ToolMessage,
        AIMessage,
    ]
    ids = []
    for asked, answered, content, arguments in ((1, 2, "On.", ARGUMENTS), (3, 4, "Off.", off)):
        request, result = reply.messages[asked], reply.messages[answered]
        assert isinstance(request, AIMessage)
        assert isinstance(result, ToolMessage)
        [call] = request.tool_calls
        assert (request.content, call["name"], call["args"]) == (content, tool.name, arguments)
        assert (result.content, result.status) == (f"Switch One is {arguments['command']}", "success")
        assert result.tool_call_id == call["id"]
        ids.append(call["id"])
    assert ids[0] != ids[1]
    assert tool.invoked == [ARGUMENTS, off], "in sequence"
    sent = [[(it["role"], it["content"]) for it in body["messages"]] for body in ollama.server.bodies]
    assert sent[2] == [
        ("user", "Blink."),
        ("assistant", "On."),
        ("tool", "Switch One is on"),
        ("assistant", "Off."),
        ("tool", "Switch One is off"),
    ]
    assert [sent[0], sent[1]] == [sent[2][:1], sent[2][:3]], "each request has what was before it, and nothing else"
    calls = [it["tool_calls"] for it in ollama.server.bodies[2]["messages"] if it["role"] == "assistant"]
    assert [call["function"] for [call] in calls] == [
        {"name": tool.name, "arguments": arguments} for arguments in (ARGUMENTS, off)
    ]


@pytest.mark.scenario("S4.1.3")
async def test_s4_1_3_tool_result_normalization(ollama: Side) -> None:
    """Results reach the model in ToolMessages as text: of `[text, artifacts]` the text, of an object its JSON."""
    results: dict[str, Any] = {
        "words": "just text",
        "both": [{"type": "text", "text": "the text"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        "pair": ("the text", [{"structured_content": {}}]),
        "object": {"on": True, "level": 3},
        "list": [1, "two", None],
        "number": 7,
        "truth": True,
        "nothing": None,
    }
    expected = {
        "words": "just text",
        "both": "the text\n[an image (image/png) that this model cannot be shown]",
        "pair": "the text",
        "object": '{"on":true,"level":3}',
        "list": '[1,"two",null]',
        "number": "7",
        "truth": "true",
        "nothing": "(no output)",
    }
    manager = ToolManager()

    async def fetch(what: str) -> Any:
        """Fetch something."""
        return results[what]

    manager.add(StructuredTool.from_function(coroutine=fetch))

    @manager.add
    async def compute(what: str) -> Any:
        """Compute something: a function of ours, which has no artifacts."""
        return results[what]

    async def answer() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        return [{"type": "text", "text": "of the server"}], {"structured_content": {"secret": "artifact"}}

    manager.add(
        StructuredTool(
            name="adapted",
            description="A tool as LangChain's MCP adapters make it.",
            args_schema={"type": "object", "properties": {}},
            coroutine=answer,
            response_format="content_and_artifact",
        )
    )
    executor = WatchedExecutor(manager)
    computed = [what for what in results if what != "pair"]
    calls = [Asked("fetch", {"what": what}) for what in results]
    calls += [Asked("compute", {"what": what}) for what in computed]
    calls += [Asked("adapted", {})]
    contents = [*expected.values(), *(expected[what] for what in computed), "of the server"]
    ollama.server.play(Step(calls=calls), Step(text="Fine."))
    reply = await ollama.client(executor).query("Fetch everything.")
    await executor.close()
    messages = [message for message in reply.messages if isinstance(message, ToolMessage)]
    asked = reply.messages[1]
    assert isinstance(asked, AIMessage)
    assert [message.tool_call_id for message in messages] == [call["id"] for call in asked.tool_calls]
    assert len({message.tool_call_id for message in messages}) == len(messages)
    assert all(type(message) is ToolMessage and isinstance(message.content, str) for message in messages)
    assert [message.content for message in messages] == contents
    assert ollama.results(1) == contents, "and so it was sent"


@pytest.mark.scenario("S4.2.1")
async def test_s4_2_1_nothing_is_parsed_by_hand(parts: Parts) -> None:
    """Removed: no code of ours extracts calls from a response. Calls that exist in `tool_calls` alone are executed."""
    executor, tool = parts
    model = invented(
        AIMessageChunk(content="", tool_calls=[tool_call("1", tool.name, **ARGUMENTS)]), AIMessageChunk(content="On.")
    )
    reply = await ModelClient(model, executor).query("Turn it on.")
    assert executor.executed == [(tool.name, ARGUMENTS, "1")]
    assert tool.invoked == [ARGUMENTS]
    assert reply.text == "On."

    qwen = f'Here: <tool_call>{{"name": "{tool.name}", "arguments": {{}}}}</tool_call>'
    reply = await ModelClient(invented(AIMessageChunk(content=qwen)), executor).query("Turn it on.")
    assert len(executor.executed) == 1, "what only looks like a call in the text is none"
    assert reply.text == qwen

    root = Path(toolrun.clients.__file__).parent
    sources = [root / f"{name}.py" for name in ("loop", "round", "model_client", "ollama", "anthropic", "conversation")]
    strings = {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert strings.isdisjoint({"message", "function", "arguments", "/api/chat", "/v1/messages"}), "keys of the wire"


@pytest.mark.scenario("S4.2.2")
async def test_s4_2_2_correspondence_is_kept_by_the_messages(parts: Parts) -> None:
    """Removed: nothing counts calls and results of a wire format; LangChain's messages pair them by id."""
    executor, tool = parts
    calls = [tool_call(f"id-{number}", tool.name, deviceName=f"Switch {number}", command="on") for number in range(5)]
    model = invented(AIMessageChunk(content="", tool_calls=calls), AIMessageChunk(content="All on."))
    reply = await ModelClient(model, executor).query("All on.")
    results = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert [(it.tool_call_id, it.content) for it in results] == [(f"id-{n}", f"Switch {n} is on") for n in range(5)]


@pytest.mark.scenario("S4.3.1")
async def test_s4_3_1_access_tool_calls_via_response_property(ollama: Side, parts: Parts) -> None:
    """The response is LangChain's message, and its `tool_calls` a plain list that is executed as it is."""
    executor, tool = parts
    ollama.server.play(Step(calls=[Asked(tool.name, ARGUMENTS)]), Step(text="On."))
    reply = await ollama.client(executor).query("Turn it on.")
    response = reply.messages[1]
    assert isinstance(response, AIMessage)
    assert type(response.tool_calls) is list
    assert len(response.tool_calls) == 1
    executed = [(name, arguments, id) for name, arguments, id in executor.executed]
    assert executed == [(call["name"], call["args"], call["id"]) for call in response.tool_calls]
    assert tool.invoked == [call["args"] for call in response.tool_calls], "as they are, not a copy that was changed"
    assert response.invalid_tool_calls == []
    with open_side("ollama whole") as whole:
        whole.server.play(Step(calls=[Asked(tool.name, ARGUMENTS)]), Step(text="On."))
        reply = await whole.client(executor).query("Turn it on.")
    response = reply.messages[1]
    assert isinstance(response, AIMessage)
    assert executor.executed[1:] == [(call["name"], call["args"], call["id"]) for call in response.tool_calls]
    assert len(executor.executed) == 2

    # Two calls in an answer that exists as LangChain's message alone: executed in order, under the ids that it has.
    calls = [tool_call(id, tool.name, deviceName=f"Switch {id}", command="on") for id in ("b", "a")]
    model = invented(AIMessageChunk(content="", tool_calls=calls), AIMessageChunk(content="On."))
    reply = await ModelClient(model, executor).query("Turn both on.")
    assert executor.executed[2:] == [(call["name"], call["args"], call["id"]) for call in calls]
    second = reply.messages[1]
    assert isinstance(second, AIMessage)
    assert second.tool_calls == calls

    # Neither is anything put together from the parts of the stream, which here are about another device.
    model = invented(joined(tool.name, ARGUMENTS, *calls), AIMessageChunk(content="On."))
    reply = await ModelClient(model, executor).query("Turn both on.")
    assert executor.executed[4:] == [(call["name"], call["args"], call["id"]) for call in calls]
    assert tool.invoked[4:] == [call["args"] for call in calls]
    third = reply.messages[1]
    assert isinstance(third, AIMessage)
    assert third.tool_calls == calls


@pytest.mark.scenario("S4.3.2")
async def test_s4_3_2_tool_call_structure_matches_langchain_standard(ollama: Side, parts: Parts) -> None:
    """A call has a unique `id`, the `name` of a registered tool, and `args` that are an object and no JSON text."""
    executor, tool = parts
    ollama.server.play(
        Step(calls=[Asked(tool.name, ARGUMENTS, id="same"), Asked(tool.name, ARGUMENTS, id="same")]), Step(text="On.")
    )
    reply = await ollama.client(executor).query("Turn it on.")
    response = reply.messages[1]
    assert isinstance(response, AIMessage)
    calls = response.tool_calls
    assert all(isinstance(call["id"], str) and call["id"] for call in calls)
    assert calls[0]["id"] != calls[1]["id"]
    assert {call["name"] for call in calls} <= {it.name for it in executor.manager.tools}
    assert [call["args"] for call in calls] == [ARGUMENTS, ARGUMENTS]
    assert all(type(call["args"]) is dict for call in calls)

    # A model that gives two calls one id: they are told apart from here on.
    same = [tool_call("same", tool.name, deviceName=f"Switch {number}", command="on") for number in range(2)]
    model = invented(AIMessageChunk(content="", tool_calls=same), AIMessageChunk(content="On."))
    reply = await ModelClient(model, executor).query("Turn both on.")
    response = reply.messages[1]
    assert isinstance(response, AIMessage)
    assert len({call["id"] for call in response.tool_calls}) == 2
    assert [call["args"]["deviceName"] for call in response.tool_calls] == ["Switch 0", "Switch 1"]


@pytest.mark.scenario("S4.3.3")
async def test_s4_3_3_tool_execution_loop_uses_langchain_messages(ollama: Side, parts: Parts) -> None:
    """The request of the model is an AIMessage with content and calls, each result a ToolMessage with the call's id."""
    executor, tool = parts
    ollama.server.play(Step(text="One moment.", calls=[Asked(tool.name, ARGUMENTS)]), Step(text="On."))
    reply = await ollama.client(executor).query("Turn it on.")
    question, asked, result, answer = reply.messages
    assert question == HumanMessage("Turn it on.")
    assert type(asked) is AIMessage
    assert asked.content == "One moment."
    assert type(result) is ToolMessage
    assert (result.content, result.tool_call_id) == ("Switch One is on", asked.tool_calls[0]["id"])
    assert type(answer) is AIMessage
    assert answer.content == "On."


@pytest.mark.scenario("S4.3.4")
async def test_s4_3_4_multi_turn_tool_calling_with_message_history(ollama: Side, parts: Parts) -> None:
    """The list of messages grows with every round and every question, and each request has all of it."""
    executor, tool = parts
    rooms = [{"deviceName": name, "command": "on"} for name in ("Hall", "Kitchen", "Attic")]
    ollama.server.play(
        Step(calls=[Asked(tool.name, rooms[0])]),
        Step(calls=[Asked(tool.name, rooms[1])]),
        Step(text="Both on."),
        Step(calls=[Asked(tool.name, rooms[2])]),
        Step(text="That one, too."),
    )
    client = ollama.client(executor)
    first = await client.query("Hall and kitchen.")
    second = await client.query("And the attic?", history=first.messages)
    assert [len(body["messages"]) for body in ollama.server.bodies] == [1, 3, 5, 7, 9]
    assert ollama.results(4) == ["Hall is on", "Kitchen is on", "Attic is on"]
    assert second.messages[: len(first.messages)] == first.messages
    assert shape(second.messages)[len(first.messages) :] == ["human", "ai", "tool", "ai"]


@pytest.mark.scenario("S4.4.1")
@pytest.mark.parametrize("kind", KINDS)
async def test_s4_4_1_tool_execution_failure_with_toolmessage(kind: str) -> None:
    """A tool that raises becomes a ToolMessage `Error: {message}` with the call's id, and the model speaks of it."""
    manager = ToolManager()

    @manager.add
    async def heat(degrees: int) -> None:
        """Heat the room."""
        raise RuntimeError("The boiler does not answer")

    executor = WatchedExecutor(manager)
    with open_side(kind) as side:
        side.server.play(Step(calls=[Asked("heat", {"degrees": 21})]), Step(text="The boiler seems to be off."))
        reply = await side.client(executor).query("Make it warm.")
        assert side.results(1) == ["Error: The boiler does not answer"]
    await executor.close()
    asked, result = reply.messages[1:3]
    assert isinstance(asked, AIMessage)
    assert isinstance(result, ToolMessage)
    assert result.content == "Error: The boiler does not answer"
    assert result.tool_call_id == asked.tool_calls[0]["id"]
    assert reply.text == "The boiler seems to be off."


@pytest.mark.scenario("S4.4.2")
async def test_s4_4_2_unknown_tool_handling(ollama: Side, parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    """A tool that does not exist becomes a ToolMessage that says so and a warning in the log, and the loop goes on."""
    executor, tool = parts
    ollama.server.play(
        Step(calls=[Asked("open_door", {})]),
        Step(calls=[Asked(tool.name, ARGUMENTS)]),
        Step(text="I cannot open doors."),
    )
    reply = await ollama.client(executor).query("Open the door.")
    asked, result = reply.messages[1:3]
    assert isinstance(asked, AIMessage)
    assert isinstance(result, ToolMessage)
    assert str(result.content).splitlines()[0] == 'Error: Unknown tool "open_door"'
    assert result.tool_call_id == asked.tool_calls[0]["id"]
    assert [record.levelno for record in caplog.records if "open_door" in record.getMessage()] == [logging.WARNING]
    assert ollama.results(1) == [result.content], "the model gets it"
    assert tool.invoked == [ARGUMENTS], "and goes on, with the tools that there are"
    assert reply.text == "I cannot open doors."


@pytest.mark.scenario("S4.4.3")
@pytest.mark.parametrize("kind", KINDS)
async def test_s4_4_3_tool_call_result_mismatch_prevention(kind: str, parts: Parts) -> None:
    """Calls that have no result get a placeholder that explains why, so that the model receives one for each call."""
    executor, tool = parts
    calls = [tool_call(f"toolu_{number}", tool.name, **ARGUMENTS) for number in range(3)]
    history = [
        HumanMessage("All on."),
        AIMessage(content="", tool_calls=calls),
        ToolMessage(content="Switch One is on", tool_call_id="toolu_1"),
    ]
    with open_side(kind) as side:
        side.server.play(Step(text="One is on."))
        client = side.client(executor)
        reply = await client.query("And?", history=history)
        placeholder = f"Error: {client.wording.no_record}"
        assert side.results(0) == [placeholder, "Switch One is on", placeholder]
    results = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert [message.tool_call_id for message in results] == ["toolu_0", "toolu_1", "toolu_2"]
    assert [message.status for message in results] == ["error", "success", "error"]
