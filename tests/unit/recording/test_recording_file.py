"""The file of a recording: what is read, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolrun.errors import ConfigError, ErrorKind, SideEffects
from toolrun.recording.recording_file import RecordedError, read_recording
from toolrun.schema.origin import Origin

HEADER = {"toolrun_recording": 1}
TOOL = {"tool": "add", "description": "Add.", "inputSchema": {"type": "object"}}
CALL = {"call": "add", "arguments": {"a": 1}, "result": 2, "ms": 0.1}


def write(path: Path, *lines: object, end: str = "\n") -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines) + end, encoding="utf-8")
    return path


def test_tools_and_calls_are_read(tmp_path: Path) -> None:
    failed = {
        "call": "add",
        "arguments": {},
        "error": {"kind": "timeout", "message": "late", "side_effects": "unknown"},
    }
    refused = {"call": "add", "sent": "{", "error": {"kind": "invalid_arguments", "message": "no", "detail": "more"}}
    file = read_recording(write(tmp_path / "r", HEADER, {**TOOL, "origin": "server"}, CALL, failed, refused))
    assert file.definitions["add"].origin is Origin.SERVER
    first, second, third = file.calls
    assert (first.arguments, first.result, first.error, first.place) == ({"a": 1}, 2, None, f"{tmp_path / 'r'}:3")
    assert second.error == RecordedError(ErrorKind.TIMEOUT, "late", SideEffects.UNKNOWN)
    assert third.arguments is None
    assert third.error == RecordedError(ErrorKind.INVALID_ARGUMENTS, "no", None, "more")
    assert file.cut_off == 0


def test_unknown_keys_blank_lines_carriage_returns_and_a_second_header_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "r"
    lines = (json.dumps(HEADER), json.dumps({**TOOL, "later": 1}), "", json.dumps(HEADER), json.dumps(CALL))
    path.write_bytes("\r\n".join(lines).encode())
    file = read_recording(path)
    assert [call.result for call in file.calls] == [2]
    assert file.cut_off == 0


def test_a_line_ends_only_at_a_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "r"
    call = json.dumps({**CALL, "result": "a\u2028b\u0085c"}, ensure_ascii=False)
    path.write_text(f"{json.dumps(HEADER)}\n{call}\n", encoding="utf-8")
    assert read_recording(path).calls[0].result == "a\u2028b\u0085c"


@pytest.mark.parametrize("kept", [1, 20, len(json.dumps(CALL)) - 1])
def test_a_last_line_that_is_cut_off_is_skipped_and_measured(kept: int, tmp_path: Path) -> None:
    path = write(tmp_path / "r", HEADER, CALL)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(CALL)[:kept])
    found = read_recording(path)
    assert len(found.calls) == 1
    assert found.cut_off == kept


def test_a_last_line_that_lacks_only_its_line_feed_counts(tmp_path: Path) -> None:
    found = read_recording(write(tmp_path / "r", HEADER, CALL, end=""))
    assert (len(found.calls), found.cut_off) == (1, 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a recording: it is empty"),
        (b"\n \n", "is not a recording: it is empty"),
        (b"print('hello')\n", "is not a recording: its first line"),
        (b"[1]\n", "is not a recording: its first line"),
        (b"\xff\xfe\x00\n", "is not a recording: its first line"),
        (b'{"tool":"add"}\n', "is not a recording: its first line"),
        (b'{"toolrun_recording":2}\n', "version 2, and this toolrun plays version 1"),
        (b'{"toolrun_recording":"x"}\n', "version x, and this toolrun plays version 1"),
        (b'{"toolrun_recording":1}\nnot json\n', ":2: the line is not JSON"),
        (b'{"toolrun_recording":1}\n{"x":1}\n', ":2: the line is not one of a recording: it has neither"),
        (b'{"toolrun_recording":1}\n[]\n', ":2: the line is not one of a recording"),
    ],
)
def test_what_is_not_a_recording_is_refused_with_its_place(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_recording(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"tool": "add", "inputSchema": {}}, "it has no 'description'"),
        ({"tool": "add", "description": "Add."}, "it has no 'inputSchema'"),
        ({**TOOL, "inputSchema": "x"}, "its 'inputSchema' is not an object"),
        ({**TOOL, "description": 7}, "its 'description' is not text"),
        ({**TOOL, "icons": 7}, "its 'icons' is not a list"),
        ({**TOOL, "origin": "elsewhere"}, "'elsewhere' is not a valid Origin"),
        ({"call": "add", "arguments": {}}, "it has neither 'result' nor 'error'"),
        ({**CALL, "arguments": [1]}, "its 'arguments' is not an object"),
        ({**CALL, "content": [1]}, "its 'content' is not a list of objects"),
        ({**CALL, "meta": 1}, "its 'meta' is not an object"),
        ({**CALL, "progress": 1}, "its 'progress' is not a list"),
        ({**CALL, "progress": [1]}, "its 'progress' is not a list of reports"),
        ({**CALL, "progress": [{"total": 1}]}, "its 'progress' is not a list of reports"),
        ({**CALL, "progress": [{"progress": 1, "total": "2"}]}, "its 'progress' is not a list of reports"),
        ({**CALL, "progress": [{"progress": 1, "message": 2}]}, "its 'progress' is not a list of reports"),
        ({"call": "add", "error": {"message": "x"}}, "it has no 'kind'"),
        ({"call": "add", "error": {"kind": "bad", "message": "x"}}, "'bad' is not a valid ErrorKind"),
        (
            {"call": "add", "error": {"kind": "timeout", "message": "x", "side_effects": 1}},
            "'side_effects' is not text",
        ),
    ],
)
def test_a_line_with_something_wrong_is_refused_with_its_place(line: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read_recording(write(tmp_path / "r", HEADER, line))
    assert f"{tmp_path / 'r'}:2: " in str(refused.value)
    assert words in str(refused.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_recording(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_recording(tmp_path)


@pytest.mark.parametrize(("key", "word"), [("inputSchema", "input"), ("outputSchema", "output")])
def test_two_schemas_of_one_tool_are_refused_with_both_places(key: str, word: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r", HEADER, TOOL, CALL, {**TOOL, key: {"type": "object", "required": ["b"]}})
    with pytest.raises(ConfigError) as refused:
        read_recording(path)
    assert f"{path}:4: the {word} schema of the tool 'add' is not the one at {path}:2" in str(refused.value)


def test_other_words_about_a_tool_replace_the_earlier_ones(tmp_path: Path) -> None:
    file = read_recording(write(tmp_path / "r", HEADER, TOOL, {**TOOL, "description": "Add two."}, CALL))
    assert file.definitions["add"].line["description"] == "Add two."
