"""The doubles that users may import for their own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from toolrun import ToolError, ToolExecutor, ToolManager
from toolrun.errors import ConfigError
from toolrun.result import ToolCall
from toolrun.testing import Recorder, Recording, Said, ScriptedModel

SCRIPT = """
repeat = true

[[answer]]
text = "Let me see."
calls = [{ name = "add", arguments = { a = 1, b = 2 } }, { name = "add", raw = '{"a": ', id = "x" }]

[[answer]]
text = "You asked {question}; it is {result}."
stop = "length"
"""


@pytest.mark.parametrize("suffix", [".toml", ".json"])
async def test_a_script_from_a_file(tmp_path: Path, suffix: str) -> None:
    import tomllib

    file = tmp_path / f"script{suffix}"
    file.write_text(SCRIPT if suffix == ".toml" else json.dumps(tomllib.loads(SCRIPT)))
    model = ScriptedModel.from_file(file)
    first = await model.ainvoke([HumanMessage("What?")])
    assert first.content == "Let me see."
    assert (first.tool_calls[0]["name"], first.tool_calls[0]["args"]) == ("add", {"a": 1, "b": 2})
    second = await model.ainvoke([HumanMessage("What?"), first, ToolMessage(content="3", tool_call_id="x")])
    assert second.content == "You asked What?; it is 3."
    assert second.response_metadata["finish_reason"] == "length"
    again = await model.ainvoke([HumanMessage("What?")])
    assert again.content == "Let me see."


@pytest.mark.parametrize(
    "text", ["", "answer = 3", "[[answer]]\ntext = 3\nspeech = 1", "[[answer]]\ncalls = [{}]", "=", "["]
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "script.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"script\.toml"):
        ScriptedModel.from_file(file)


async def test_streams_come_in_words_and_errors_in_the_middle() -> None:
    model = ScriptedModel([Said("One two", [ToolCall("1", "add", {})])])
    chunks = [chunk async for chunk in model.astream("Go.")]
    assert [chunk.content for chunk in chunks if chunk.content] == ["One ", "two"]
    cut = ScriptedModel([[*chunks[:1], ConnectionError("cut")]])
    with pytest.raises(ConnectionError):
        [chunk async for chunk in cut.astream("Go.")]


async def test_messages_are_given_as_they_are() -> None:
    message = AIMessage(content="Hi.", invalid_tool_calls=[{"name": "a", "args": "{", "id": "1", "error": None}])
    model = ScriptedModel([message, message])
    assert (await model.ainvoke("x")).invalid_tool_calls == message.invalid_tool_calls
    [first, *_] = [chunk async for chunk in model.astream("x")]
    assert first.content == "Hi."


def test_models_can_be_asked_without_a_loop() -> None:
    assert ScriptedModel(["Hi."]).invoke("x").content == "Hi."


def test_what_was_recorded_is_played_again(tmp_path: Path) -> None:
    async def divide(a: int, b: int) -> float:
        """Divide two numbers."""
        if b == 0:
            raise ToolError("Nobody divides by zero.")
        return a / b

    with Recorder(tmp_path / "tools.jsonl") as recorder:
        real = ToolExecutor(ToolManager([divide]), observers=[recorder])
        original = [real.execute_sync("divide", {"a": "6", "b": b}) for b in (3, 0)]

    recording = Recording.load(tmp_path / "tools.jsonl")
    played = recording.executor()
    assert [played.execute_sync("divide", {"a": 6, "b": b}).text for b in (3, 0)] == [it.text for it in original]
    assert recording["divide"].received == [{"a": 6, "b": 3}, {"a": 6, "b": 0}]
    assert '\'divide\' with {"a": 1, "b": 1} was not recorded' in played.execute_sync("divide", {"a": 1, "b": 1}).text
    assert "missing 'b'" in played.execute_sync("divide", {"a": 1}).text


def test_calls_can_be_made_up() -> None:
    recording = Recording()
    recording.add("weather", {"city": "Rome"}, "sunny", description="The weather.")
    recording.add("weather", {"city": "Oslo"}, error="No data.")
    executor = recording.executor()
    assert executor.execute_sync("weather", {"city": "Rome"}).text == "sunny"
    assert executor.execute_sync("weather", {"city": "Oslo"}).text == "Error: No data."
    recording.assert_all_played()


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('{"tools": [{}]}')
    with pytest.raises(ConfigError, match="not a recording"):
        Recording.load(tmp_path / "tools.json")
