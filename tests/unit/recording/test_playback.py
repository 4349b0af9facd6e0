"""Playing a recording: which call is played, what is an error, and what can be asserted afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolrun import (
    Content,
    ErrorKind,
    SideEffects,
    ToolContext,
    ToolError,
    ToolExecutor,
    ToolManager,
    UnavailableError,
    tool,
)
from toolrun.errors import CallError, ConfigError
from toolrun.execution.approval import as_model, calling_as
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.json import JSON
from toolrun.recording.playback import Recording
from toolrun.recording.recording_observer import Recorder
from toolrun.tools.context import Progress

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "number"}, "exact": {"type": "boolean"}},
    "required": ["city"],
}


def made_up(*calls: tuple[dict[str, Any], str], lenient: bool = False) -> tuple[Recording, ToolExecutor]:
    recording = Recording(lenient=lenient)
    for arguments, answer in calls:
        recording.add("weather", arguments, answer, description="The weather.", schema=SCHEMA)
    return recording, recording.executor()


def test_the_same_arguments_get_their_answer_in_any_order_of_calls_and_keys() -> None:
    _, executor = made_up(({"city": "Rome", "days": 2}, "sun"), ({"city": "Oslo"}, "snow"))
    assert executor.execute_sync("weather", {"city": "Oslo"}).result == "snow"
    assert executor.execute_sync("weather", {"days": "2.0", "city": "Rome"}).result == "sun"


def test_what_was_recorded_does_nothing_and_needs_no_approval() -> None:
    recording, _ = made_up(({"city": "Oslo"}, "snow"))
    recording["weather"].annotations = {"destructiveHint": True}
    with calling_as(as_model()):
        assert recording.executor().execute_sync("weather", {"city": "Oslo"}).result == "snow"
        refused = recording.executor(on_approval=lambda _: False).execute_sync("weather", {"city": "Oslo"})
    assert refused.error_kind is ErrorKind.NOT_APPROVED


def test_strict_a_call_that_was_not_recorded_names_the_nearest_one_and_the_difference() -> None:
    recording, executor = made_up(({"city": "Oslo"}, "snow"), ({"city": "Rome", "days": 2, "exact": True}, "sun"))
    result = executor.execute_sync("weather", {"city": "Rome", "days": 3, "exact": True})
    expected = (
        '\'weather\' with {"city": "Rome", "days": 3, "exact": true} was not recorded. '
        "The nearest call is at the test: days is 3, recorded 2."
    )
    assert result.error == expected
    assert (result.error_kind, result.side_effects) == (ErrorKind.TOOL_ERROR, SideEffects.NOT_STARTED)
    assert recording.mismatches == [expected]
    assert len(recording.unplayed) == 2


def test_strict_a_tool_without_recorded_calls_says_so() -> None:
    recording, executor = made_up(({"city": "Oslo"}, "snow"))
    recording["weather"]._calls.clear()
    recording["weather"]._by_key.clear()
    error = executor.execute_sync("weather", {"city": "Oslo"}).error
    assert error is not None
    assert error.endswith("was not recorded: the recording has no call of 'weather'.")


def test_strict_repeated_arguments_are_played_in_order_and_then_are_an_error() -> None:
    recording, executor = made_up(({"city": "Rome"}, "sun"), ({"city": "Rome"}, "rain"))
    assert [executor.execute_sync("weather", {"city": "Rome"}).result for _ in range(2)] == ["sun", "rain"]
    once_more = executor.execute_sync("weather", {"city": "Rome"})
    assert once_more.error is not None
    assert "was recorded 2 times (the test, the test), and is called once more" in once_more.error
    assert len(recording.mismatches) == 1


def test_lenient_other_arguments_get_the_next_call_and_then_the_last_again() -> None:
    recording, executor = made_up(({"city": "Rome"}, "sun"), ({"city": "Oslo"}, "snow"), lenient=True)
    played = [executor.execute_sync("weather", {"city": city}).result for city in ("Bonn", "Kiel", "Ulm", "Rome")]
    assert played == ["sun", "snow", "snow", "sun"]
    assert recording.mismatches == []
    recording.assert_all_played()


def test_lenient_the_same_arguments_come_first() -> None:
    _, executor = made_up(({"city": "Rome"}, "sun"), ({"city": "Oslo"}, "snow"), lenient=True)
    assert [executor.execute_sync("weather", {"city": city}).result for city in ("Oslo", "Bonn")] == ["snow", "sun"]


def test_lenient_arguments_that_the_schema_refuses_are_refused() -> None:
    recording, executor = made_up(({"city": "Rome"}, "sun"), lenient=True)
    assert executor.execute_sync("weather", {"days": 2}).error_kind is ErrorKind.INVALID_ARGUMENTS
    assert len(recording.unplayed) == 1


def test_unplayed_calls_can_be_asserted() -> None:
    recording, executor = made_up(({"city": "Rome"}, "sun"), ({"city": "Oslo"}, "snow"))
    executor.execute_sync("weather", {"city": "Rome"})
    assert [call.arguments for call in recording.unplayed] == [{"city": "Oslo"}]
    with pytest.raises(AssertionError) as failed:
        recording.assert_all_played()
    assert str(failed.value) == '1 recorded call not played:\n  the test: weather {"city": "Oslo"}'
    executor.execute_sync("weather", {"city": "Oslo"})
    recording.assert_all_played()


def test_a_played_answer_is_nobody_elses() -> None:
    recording = Recording(lenient=True)
    recording.add("get", {}, {"items": [1]})
    executor = recording.executor()
    first = executor.execute_sync("get").result
    assert isinstance(first, dict)
    first["items"] = []
    assert executor.execute_sync("get").result == {"items": [1]}


def _recorded(tmp_path: Path, *tools: object, calls: list[tuple[str, Any]]) -> tuple[list[Any], Recording]:
    with Recorder(tmp_path / "r.jsonl") as recorder:
        executor = ToolExecutor(ToolManager(tools), observers=[recorder])
        results = [executor.execute_sync(name, arguments) for name, arguments in calls]
    return results, Recording.load(tmp_path / "r.jsonl")


@pytest.mark.parametrize("kind", [kind for kind in ErrorKind if kind is not ErrorKind.CANCELLED])
def test_an_error_is_played_as_an_error_of_the_same_kind(kind: ErrorKind, tmp_path: Path) -> None:
    class RaisedError(CallError):
        pass

    RaisedError.kind = kind

    def blocking(way: str) -> None:
        """Fails."""
        error = RaisedError("It failed.", side_effects=SideEffects.UNKNOWN, detail="More.")
        error.answer = Content([{"type": "text", "text": "said"}], {"code": 7}, {"trace": 1})
        raise error

    results, recording = _recorded(tmp_path, blocking, calls=[("blocking", {"way": "x"})])
    played = recording.executor().execute_sync("blocking", {"way": "x"})
    assert played.error_kind is kind
    assert _parts(played) == _parts(results[0])
    recording.assert_all_played()


def _parts(result: Any) -> tuple[Any, ...]:
    return (
        result.success,
        result.result,
        result.error,
        result.error_kind,
        result.side_effects,
        result.detail,
        result.content,
        result.meta,
        result.text,
        result.dropped,
    )


def test_every_kind_of_answer_is_played_as_it_was(tmp_path: Path) -> None:
    image: dict[str, JSON] = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    values: list[Any] = [
        None,
        "",
        "text\u2028with separators\n\x00",
        0,
        -1.5,
        2**70,
        True,
        [],
        [1, {"a": None}],
        {"deep": [{"er": [[]]}]},
        [{"type": "text", "text": "a block"}, image],
        Content([{"type": "text", "text": "for the model"}], {"for": "a program"}),
        Content([image], None, {"meta": 1}),
        Content([], {"only": "data"}, {}),
    ]

    def get(number: int) -> Any:
        """One of the values."""
        return values[number]

    def fail(number: int) -> None:
        """Fails."""
        error = (ToolError("no", detail="why"), UnavailableError("gone"), ConnectionError("refused"), KeyError("x"))
        raise error[number]

    calls: list[tuple[str, Any]] = [("get", {"number": number}) for number in range(len(values))]
    calls += [("fail", {"number": number}) for number in range(4)]
    calls += [("get", {"number": "3", "extra_argument": 1}), ("get", {}), ("nobody", {})]
    results, recording = _recorded(tmp_path, get, fail, calls=calls)
    executor = recording.executor()
    for (name, arguments), result in zip(calls, results, strict=True):
        played = executor.execute_sync(name, arguments)
        assert _parts(played) == _parts(result), (name, arguments)
        assert played.repairs == result.repairs
    recording.assert_all_played()
    assert recording.mismatches == []


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("has_journal", [True, False])
async def test_progress_is_played_in_order_and_before_the_answer(
    tmp_path: Path, fails: bool, has_journal: bool
) -> None:
    def work(steps: int, context: ToolContext) -> str:
        """Work."""
        for step in range(steps):
            context.progress(step, steps, f"step {step}")
        if fails:
            raise ToolError("no")
        return "done"

    with Recorder(tmp_path / "r.jsonl") as recorder:
        executor = ToolExecutor(ToolManager([tool(work)]), observers=[recorder])
        for steps in (3, 0):
            await executor.execute("work", {"steps": steps})
        await executor.close()
    recording = Recording.load(tmp_path / "r.jsonl")
    journal = Journal(tmp_path / "journal.db")
    playing = recording.executor(recorder=CallRecorder(journal) if has_journal else None)
    heard: list[object] = []
    for steps, key in ((3, "k" if has_journal else None), (0, None)):
        result = await playing.execute("work", {"steps": steps}, on_progress=heard.append, key=key)
        heard.append(result.text)
    answer = "Error: no" if fails else "done"
    assert heard == [*(Progress(step, 3, f"step {step}") for step in range(3)), answer, answer]
    recording.assert_all_played()
    await playing.close()
    journal.close()


def test_a_cut_off_file_is_told_and_the_rest_is_played(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _recorded(tmp_path, made_tool, calls=[("made_tool", {"a": 1}), ("made_tool", {"a": 2})])
    path = tmp_path / "r.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    recording = Recording.load(path)
    assert "r.jsonl: the last line is cut off, and is not played" in caplog.text
    assert [call.arguments for call in recording.unplayed] == [{"a": 1}]


def made_tool(a: int) -> int:
    """A tool."""
    return a


def test_several_files_are_one_recording_unless_their_schemas_differ(tmp_path: Path) -> None:
    header, tool = {"toolrun_recording": 1}, {"tool": "add", "description": "Add.", "inputSchema": {"type": "object"}}
    other = {**tool, "inputSchema": {"type": "object", "required": ["b"]}}
    for name, definition, result in (("a", tool, 1), ("b", tool, 2), ("c", other, 3)):
        call = {"call": "add", "arguments": {}, "result": result}
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in (header, definition, call)))
    executor = Recording.load(tmp_path / "a", tmp_path / "b").executor()
    assert [executor.execute_sync("add").result for _ in range(2)] == [1, 2]
    with pytest.raises(ConfigError) as refused:
        Recording.load(tmp_path / "a", tmp_path / "c")
    assert f"{tmp_path / 'c'}:2: the input schema of the tool 'add' is not the one at {tmp_path / 'a'}:2" in str(
        refused.value
    )


@pytest.mark.parametrize(
    "line",
    [
        {"tool": "bad name", "description": "x", "inputSchema": {}},
        {"tool": "add", "description": " ", "inputSchema": {}},
        {"tool": "add", "description": "x", "inputSchema": {"type": "nonsense"}},
    ],
)
def test_a_tool_that_cannot_be_one_is_refused_with_its_place(line: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "r").write_text(f'{{"toolrun_recording":1}}\n{json.dumps(line)}\n')
    with pytest.raises(ConfigError, match=r"r:2: the tool cannot be played: "):
        Recording.load(tmp_path / "r")


def test_the_tools_can_be_given_to_any_manager() -> None:
    recording, _ = made_up(({"city": "Rome"}, "sun"))
    assert [tool.name for tool in recording.tools()] == ["weather"]
    assert [tool.name for tool in recording.manager()] == ["weather"]
    own = ToolExecutor(ToolManager([*recording.tools(), made_tool]))
    assert own.execute_sync("weather", {"city": "Rome"}).result == "sun"
    assert own.execute_sync("made_tool", {"a": 3}).result == 3
