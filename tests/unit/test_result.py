"""The answer and its renderings."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from toolrun import ErrorKind, Repair, SideEffects, ToolResult
from toolrun.result import shorten

BIG = 2**70  # beyond what the fast JSON library writes


def test_the_envelope_of_a_success_has_exactly_its_keys_and_rounds_the_time() -> None:
    result = ToolResult("add", {"sum": 3}, execution_time_ms=1.23456, call_id="c1")
    assert result.success
    assert list(result.to_dict().items()) == [
        ("success", True),
        ("result", {"sum": 3}),
        ("tool_name", "add"),
        ("execution_time_ms", 1.235),
    ]


def test_the_envelope_of_a_failure_has_the_error_instead_of_the_result() -> None:
    result = ToolResult("add", error="no", error_kind=ErrorKind.TOOL_ERROR, side_effects=SideEffects.FAILED)
    assert not result.success
    assert result.to_dict() == {"success": False, "error": "no", "tool_name": "add", "execution_time_ms": 0.0}


def test_the_full_envelope_has_all_that_a_program_may_ask() -> None:
    plain = ToolResult("add", 3, execution_time_ms=1.5)
    assert plain.to_dict(full=True) == plain.to_dict() | {
        "error_kind": None,
        "side_effects": None,
        "repairs": [],
        "dropped": [],
        "edited": None,
        "call_id": None,
        "recorded_as": None,
        "key": None,
        "replayed": False,
    }
    repairs = (Repair("b", "2", 2, "text → integer"), Repair("", "\ud800", None, "why"))
    result = ToolResult("add", None, "no", ErrorKind.TIMEOUT, 0.0, "toolu_7", repairs=repairs)
    result.side_effects, result.dropped, result.record = SideEffects.UNKNOWN, ("c",), (17 << 32 | 204, "order-1")
    found: dict[str, Any] = result.to_dict(full=True)
    assert json.loads(json.dumps(found)) == found
    assert "\ud800" not in str(found)
    assert list(found)[:4] == list(result.to_dict())
    assert (found["error_kind"], found["side_effects"], found["dropped"]) == ("timeout", "unknown", ["c"])
    assert found["repairs"][0] == {"path": "b", "before": "2", "after": 2, "reason": "text → integer"}
    assert (found["call_id"], found["recorded_as"], found["key"]) == ("toolu_7", "17-204", "order-1")
    assert ToolResult("add", 3, record=(17 << 32 | 204, None)).to_dict(full=True)["call_id"] == "17-204"


def test_results_are_values() -> None:
    one = ToolResult("add", [1], call_id="c", max_chars=5)
    assert one == ToolResult("add", [1], call_id="c"), "how much of it is shown is not part of it"
    assert one != ToolResult("add", [2], call_id="c")
    other = dataclasses.replace(one, error="broken", error_kind=ErrorKind.PROTOCOL)
    assert (other.success, other.tool_name, other.call_id, other.max_chars) == (False, "add", "c", 5)
    assert one.success


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", "(no output)"),
        (None, "(no output)"),
        (True, "true"),
        (0, "0"),
        (2.5, "2.5"),
        (BIG, "1180591620717411303424"),
        ({"ä": [1, None]}, '{"ä":[1,null]}'),
        ({"ä": BIG}, '{"ä":1180591620717411303424}'),
        ([], "[]"),
        ([1, "x"], '[1,"x"]'),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "text", "text": ""}], "(no output)"),
        ([{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "[image image/png, not shown as text]"),
        ([{"type": "image_url", "image_url": {"url": "https://x.org"}}], "[image_url, not shown as text]"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}], "inside"),
        ([{"type": "resource", "resource": {"uri": "file:///a"}}], "[resource file:///a, not shown as text]"),
        ([{"type": "text", "text": "one"}, 2], '[{"type":"text","text":"one"},2]'),
        ([{"type": "text"}], '[{"type":"text"}]'),
        ([{"type": "file", "name": "a.txt"}], '[{"type":"file","name":"a.txt"}]'),
        ([{"type": ["string", "null"], "text": "x"}], '[{"type":["string","null"],"text":"x"}]'),
    ],
)
def test_the_text_of_a_success(value: Any, text: str) -> None:
    assert ToolResult("t", value).text == text


@pytest.mark.parametrize(
    ("kind", "detail", "text"),
    [
        (ErrorKind.TOOL_ERROR, "", "Error: it broke"),
        (ErrorKind.INVALID_ARGUMENTS, "Parameters:\n  a", "Error: it broke\nParameters:\n  a"),
        (ErrorKind.UNKNOWN_TOOL, "Did you mean add?", 'Error: Unknown tool "ad"\nDid you mean add?'),
    ],
)
def test_the_text_of_a_failure(kind: ErrorKind, detail: str, text: str) -> None:
    assert ToolResult("ad", error="it broke", error_kind=kind, detail=detail).text == text


def test_a_long_text_keeps_three_quarters_head_and_one_quarter_tail() -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(2000))
    assert shorten(text, 100) == f"{text[:75]}\n… [1,900 of 2,000 characters left out] …\n{text[-25:]}"
    assert shorten(text, 2000) == shorten(text, None) == text
    assert shorten("abc", 1) == "a\n… [2 of 3 characters left out] …\n"
    assert ToolResult("t", text, max_chars=100).text == shorten(text, 100)
    assert ToolResult("t", error=text, max_chars=100).text == shorten(f"Error: {text}", 100)
