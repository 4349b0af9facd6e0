"""Answers of servers, and answers for clients."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun import ToolExecutor, ToolManager
from toolrun.errors import (
    CallError,
    ErrorKind,
    InvalidArgumentsError,
    ProtocolError,
    SideEffects,
    ToolError,
    UnknownToolError,
)
from toolrun.execution.failure import ForeignError, explain
from toolrun.json import JSON
from toolrun.mcp.call_result import forward_result, protocol_failure, read_result, write_result
from toolrun.result import Content, ToolResult, normalise, normalise_result
from toolrun.schema.repair_record import Repair

PNG = "iVBORw0KGgo="
TEXT: dict[str, JSON] = {"type": "text", "text": "hello"}
IMAGE: dict[str, JSON] = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
NOTE = {"type": "resource", "resource": {"uri": "file:///note.txt", "text": "a note"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///x.png", "blob": PNG, "mimeType": "image/png"}}
LINK: dict[str, JSON] = {"type": "resource_link", "uri": "file:///x", "name": "x"}
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("block", [TEXT, IMAGE, AUDIO, NOTE, BLOB, LINK], ids=lambda block: str(block["type"]))
def test_a_block_that_is_right_is_passed_on_as_it_is(block: dict[str, Any]) -> None:
    block = {**block, "annotations": {"audience": ["user"]}}
    content = read_result({"content": [block]})
    assert content.blocks == [block]
    assert normalise_result(content)[1] == (block,)


def test_text_alone_is_also_the_data() -> None:
    content = read_result({"content": [TEXT, TEXT], "isError": False})
    assert normalise(content) == "hello\nhello"


def test_structured_content_is_the_data() -> None:
    content = read_result({"content": [TEXT], "structuredContent": {"n": 1}, "resultType": "complete"})
    assert (content.blocks, normalise(content)) == ([TEXT], {"n": 1})


def test_structured_content_needs_no_blocks_and_may_be_anything() -> None:
    assert normalise(read_result({"structuredContent": [1, 2]})) == [1, 2]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "video", "data": PNG}, '[video, an unknown type of content: {"type": "video",'),
        ({"type": "image", "data": PNG}, "[image, not usable: no 'mimeType']"),
        ({"type": "image", "data": "not base64!", "mimeType": "x"}, "[image, not usable: its data is not"),
        ({"type": "audio", "data": "ü", "mimeType": "x"}, "[audio, not usable: its data is not base64"),
        ({"type": "text", "text": 5}, "[text, not usable: no 'text']"),
        ({"type": "resource", "resource": {"uri": "x:"}}, "[resource, not usable: neither 'text' nor"),
        ({"type": "resource", "resource": 5}, "[resource, not usable: no 'uri']"),
        ({"text": "no type"}, "[not a block of content: "),
        ("a string", '[not a block of content: "a string"]'),
        (None, "[not a block of content: null]"),
    ],
)
def test_a_block_that_cannot_be_read_is_told_and_costs_the_others_nothing(block: object, text: str) -> None:
    content = read_result({"content": [TEXT, block]})
    assert content.blocks[0] == TEXT
    assert str(content.blocks[1]["text"]).startswith(text)
    assert len(normalise_result(content)[1]) == 2


@pytest.mark.parametrize(
    "raw", [{}, {"content": "text"}, {"content": None}, [], "x", {"content": [], "resultType": "x"}]
)
def test_what_is_no_result_is_a_protocol_error(raw: Any) -> None:
    with pytest.raises(ProtocolError):
        read_result(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"content": [TEXT, IMAGE]}, "hello\n[image image/png, not shown as text]"),
        ({"content": [], "structuredContent": {"reason": "full"}}, '{"reason":"full"}'),
        ({"content": []}, "The tool failed without saying why"),
        ({"content": [{"type": "text", "text": ""}]}, "(no output)"),
    ],
)
def test_an_error_of_the_tool_is_its_own_words(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_result({**raw, "isError": True})
    assert str(caught.value) == message
    assert caught.value.side_effects is SideEffects.FAILED


@pytest.mark.parametrize("is_error", [False, True])
def test_what_a_server_says_about_its_answer_is_kept(is_error: bool) -> None:
    raw = {"content": [TEXT, IMAGE, LINK], "structuredContent": {"n": 1}, "_meta": {"x/trace": "7"}}
    content: object
    try:
        content = read_result({**raw, "isError": is_error})
    except ToolError as error:
        assert is_error
        content = error.answer
    assert content == Content([TEXT, IMAGE, LINK], {"n": 1}, {"x/trace": "7"})


def test_a_server_that_asks_back_is_told_so() -> None:
    ask = {"method": "elicitation/create", "params": {"message": "Which room?"}}
    with pytest.raises(ToolError, match="asks for input") as caught:
        read_result({"resultType": "input_required", "inputRequests": {"a": ask}})
    assert caught.value.detail == "Which room?"


@given(st.dictionaries(st.sampled_from(["content", "isError", "structuredContent", "resultType"]), JSONS))
def test_whatever_comes_is_content_or_the_error_of_a_call(raw: dict[str, Any]) -> None:
    try:
        content = read_result(raw)
    except CallError:
        return
    assert isinstance(content, Content)


@pytest.mark.parametrize(
    ("code", "kind", "side_effects"),
    [
        (-32602, InvalidArgumentsError, SideEffects.NOT_STARTED),
        (-32601, UnknownToolError, SideEffects.NOT_STARTED),
        (-32600, ProtocolError, SideEffects.NOT_STARTED),
        (-32603, ForeignError, SideEffects.FAILED),
        (-32042, ForeignError, SideEffects.FAILED),
        (1, ForeignError, SideEffects.FAILED),
    ],
)
def test_errors_of_the_protocol_keep_their_message(code: int, kind: type[CallError], side_effects: SideEffects) -> None:
    error = protocol_failure(code, "Unknown tool: x", {"tool": "x"}, "x")
    assert type(error) is kind
    assert (str(error), error.side_effects) == ("Unknown tool: x", side_effects)
    assert '{"tool": "x"}' in error.detail


def test_an_error_without_a_message_still_says_something() -> None:
    assert str(protocol_failure(-32000, "", None, "x")) == "The server of 'x' answered with error -32000 and no message"


def written(result: ToolResult, *, has_output_schema: bool = False) -> dict[str, Any]:
    """The answer, which the SDK has accepted."""
    answer: dict[str, Any] = write_result(result, has_output_schema)
    mcp_types.CallToolResult.model_validate(json.loads(json.dumps(answer)))
    return answer


def test_a_plain_result_is_text() -> None:
    assert written(ToolResult("t", 5)) == {"content": [{"type": "text", "text": "5"}], "isError": False}
    assert written(ToolResult("t", {"a": 1})) == {"content": [{"type": "text", "text": '{"a":1}'}], "isError": False}


def test_a_promised_object_is_structured_as_well() -> None:
    answer = written(ToolResult("t", {"a": 1}), has_output_schema=True)
    assert answer["structuredContent"] == {"a": 1}
    assert answer["content"] == [{"type": "text", "text": '{"a":1}'}]
    assert "structuredContent" not in written(ToolResult("t", [1]), has_output_schema=True)


def test_data_beside_blocks_is_structured() -> None:
    answer = written(ToolResult("t", {"a": 1}, content=(TEXT, IMAGE)))
    assert (answer["content"], answer["structuredContent"]) == ([TEXT, IMAGE], {"a": 1})


def test_a_failure_is_told_with_its_kind_and_effects() -> None:
    result = ToolResult(
        "t", error="no", error_kind=ErrorKind.TIMEOUT, side_effects=SideEffects.UNKNOWN, detail="in detail"
    )
    assert written(result) == {
        "content": [{"type": "text", "text": "no\nin detail"}],
        "isError": True,
        "_meta": {"toolrun/errorKind": "timeout", "toolrun/sideEffects": "unknown"},
    }
    result.record = (17 << 32 | 204, "k")
    assert written(result)["_meta"]["toolrun/recordedAs"] == "17-204"


def test_an_answer_that_was_given_before_is_marked() -> None:
    result = ToolResult("t", 5, record=(17 << 32 | 204, "k"), meta={"trace": 1})
    for write in (written, lambda it: forward_result(it, True)):
        assert write(result)["_meta"] == {"trace": 1, "toolrun/key": "k"}
        again = dataclasses.replace(result, replayed=True)
        about = {"toolrun/replayed": True, "toolrun/recordedAs": "17-204"}
        assert write(again)["_meta"] == {"trace": 1, "toolrun/key": "k", **about}


def test_what_was_changed_in_the_arguments_is_said_of_a_success() -> None:
    result = ToolResult("t", 5, repairs=(Repair("a", "1", 1, "type"),), dropped=("c",), record=(1, None))
    for write in (written, lambda it: forward_result(it, True)):
        assert write(result)["_meta"] == {
            "toolrun/repairs": [{"path": "a", "before": "1", "after": 1, "reason": "type"}],
            "toolrun/dropped": ["c"],
        }
        assert "_meta" not in write(ToolResult("t", 5, record=(1, None)))


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("t", "x" * 1000, max_chars=100),
        ToolResult("t", "x", max_chars=100, content=({"type": "text", "text": "x" * 1000},)),
        ToolResult("t", error="x" * 1000, error_kind=ErrorKind.TOOL_ERROR, max_chars=100),
    ],
)
def test_the_limit_for_models_does_not_cut_what_a_program_gets(result: ToolResult) -> None:
    assert written(result)["content"] == [{"type": "text", "text": "x" * 1000}]
    assert forward_result(result, False)["content"] in ([], [{"type": "text", "text": "x" * 1000}])
    assert "characters left out" in result.text


BARE_LINK = {"type": "resource_link", "uri": "a:/b", "size": 1}
"""As a server may send it; our own blocks get a name."""
META: dict[str, Any] = {"trace": [1]}


@pytest.mark.parametrize(
    ("raw", "is_modern"),
    [
        ({"content": [TEXT | {"x": 1}, BARE_LINK], "_meta": META}, False),
        ({"content": [], "structuredContent": {"a": None}}, False),
        ({"content": []}, False),
        ({"content": [TEXT]}, True),
        ({"content": [TEXT, IMAGE]}, True),
        ({"content": [TEXT], "structuredContent": []}, True),
        ({"content": [TEXT], "structuredContent": [TEXT, TEXT]}, True),
        ({"content": [TEXT], "structuredContent": "other"}, True),
        ({"content": [TEXT], "structuredContent": 0}, True),
        ({"content": [TEXT], "structuredContent": False}, True),
        ({"content": [IMAGE], "isError": True, "structuredContent": {"a": 1}, "_meta": META}, False),
        ({"content": [IMAGE], "isError": True, "structuredContent": [1]}, True),
        ({"content": [], "isError": True, "_meta": META}, True),
        ({"content": [{"type": "hologram", "x": [1]}, TEXT]}, False),
        ({"content": [{**IMAGE, "data": "!"}, {"type": "image"}, {"type": "resource", "resource": 5}, 7]}, True),
        ({"content": [{"type": "hologram"}], "isError": True}, False),
    ],
)
async def test_what_a_server_answered_is_forwarded_as_it_is(raw: dict[str, Any], is_modern: bool) -> None:
    class Passing:
        name, description = "t", "Passes on."
        schema: ClassVar = {"type": "object"}

        async def ainvoke(self, arguments: dict[str, Any]) -> Content:
            return read_result(raw)

    executor = ToolExecutor(ToolManager([Passing()]))
    result = await executor.execute("t", {})
    assert forward_result(result, is_modern) == {"isError": False, **raw}
    await executor.close()


@pytest.mark.parametrize("data", [[1], "other", 0])
def test_the_older_protocol_gets_structured_content_only_if_it_is_an_object(data: Any) -> None:
    assert "structuredContent" not in forward_result(ToolResult("t", data, content=(TEXT,)), False)


OURS = [kind for kind in ErrorKind if kind not in (ErrorKind.TOOL_ERROR, ErrorKind.PROTOCOL)]


@pytest.mark.parametrize("kind", OURS)
def test_a_failure_that_is_ours_is_told_in_our_words(kind: ErrorKind) -> None:
    result = ToolResult("t", {"a": 1}, error="why", error_kind=kind, content=(TEXT,))
    assert forward_result(result, True) == write_result(result, False)
    assert forward_result(result, True)["content"] == [{"type": "text", "text": "why"}]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}, IMAGE),
        ({"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"}, IMAGE),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, IMAGE),
        ({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PNG}, IMAGE),
        ({"type": "image", "base64": PNG, "mime_type": "image/png"}, IMAGE),
        ({"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}, AUDIO),
        (
            {"type": "image", "url": "https://x.example/a.png"},
            {"type": "resource_link", "uri": "https://x.example/a.png", "name": "https://x.example/a.png"},
        ),
        (
            {"type": "file", "base64": PNG, "mime_type": "application/pdf", "filename": "a.pdf"},
            {
                "type": "resource",
                "resource": {"uri": "attachment:a.pdf", "blob": PNG, "mimeType": "application/pdf"},
            },
        ),
        (
            {"type": "file", "file": {"filename": "b.png", "file_data": f"data:image/png;base64,{PNG}"}},
            {"type": "resource", "resource": {"uri": "attachment:b.png", "blob": PNG, "mimeType": "image/png"}},
        ),
        ({"type": "file", "source_type": "text", "text": "hello"}, TEXT),
        ({"type": "file", "file_id": "file-1"}, {"type": "text", "text": "[file, not shown as text]"}),
        (NOTE, NOTE),
        (LINK, LINK),
        ({"type": "resource_link", "uri": "x:y"}, {"type": "resource_link", "uri": "x:y", "name": "x:y"}),
    ],
)
def test_blocks_of_other_makers_become_blocks_of_mcp(block: dict[str, Any], expected: dict[str, Any]) -> None:
    assert written(ToolResult("t", content=(block,)))["content"] == [expected]


@pytest.mark.parametrize("blocks", [[TEXT], [IMAGE, AUDIO], [NOTE, BLOB, LINK]])
def test_what_a_server_said_arrives_at_a_client_as_it_was(blocks: list[Any]) -> None:
    content = read_result({"content": blocks})
    data, shown = normalise_result(content)
    assert written(ToolResult("t", data, content=shown))["content"] == blocks


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -32050, 7])
@pytest.mark.parametrize("data", [None, "why", {"a": [None, 1.5]}, 0])
def test_the_code_and_the_data_of_a_json_rpc_error_are_forwarded(code: int, data: Any) -> None:
    failure = explain(protocol_failure(code, "no room", data, "t"), "t")
    assert failure.answer is not None
    result = ToolResult("t", error=failure.message, error_kind=failure.kind, meta=failure.answer.meta)
    for answer in (forward_result(result, True), write_result(result, False)):
        assert answer["isError"] is True
        assert answer["content"] == [{"type": "text", "text": "no room"}]
        meta: Any = answer["_meta"]
        assert (meta["toolrun/errorCode"], meta.get("toolrun/errorData")) == (code, data)
