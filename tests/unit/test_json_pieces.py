"""JSON text of any size gets the same value, or the same refusal, as in one call."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolrun import json_pieces
from toolrun.json import JSONDecodeError, loads
from toolrun.json_pieces import PIECE, loads_in_pieces

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.text(alphabet='a,:"\\[]{}\n😀é'),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(alphabet='ab,"\\]}é'), inner, max_size=6),
    max_leaves=30,
)
pieces = st.integers(min_value=12, max_value=60)
"""Bytes: the smallest piece must hold an escape sequence of two halves."""


def outcome(text: bytes, piece: int | None = None) -> object:
    try:
        return repr(loads(text) if piece is None else loads_in_pieces(text, piece))
    except JSONDecodeError:
        return "refused"


@given(values, pieces, st.booleans(), st.sampled_from([None, 0, 3]))
@example(["x" * 100, {"k" * 100: "y" * 100}], 12, False, None)
@example([1, 2, 3, [1] * 100, 4, 5, {"a": [1] * 100, "b": 7}], 12, False, None)
@example([{"a": "],[}"}] * 50, 20, True, None)
@example("\\" * 50 + '"' * 50 + "😀" * 50, 12, True, None)
def test_a_text_in_pieces_has_the_same_value(value: object, piece: int, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert repr(loads_in_pieces(text, piece)) == repr(loads(text))
    assert repr(loads_in_pieces(text.encode(), piece)) == repr(loads(text))


@given(values, pieces, st.data())
def test_a_broken_text_is_refused_in_pieces_exactly_if_it_is_in_one_call(
    value: object, piece: int, data: st.DataObject
) -> None:
    text = json.dumps(value).encode()
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 3))
    inserted = data.draw(st.sampled_from([b"", b",", b"]", b"}", b"[", b"{", b'"', b":", b"\\", b" ", b"1", b"\xff"]))
    broken = text[:at] + inserted + text[at + gone :]
    assert outcome(broken, piece) == outcome(broken)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"1," * 50 + b"]",
        b"[," + b"1," * 50 + b"1]",
        b"[" + b"1," * 50 + b",1]",
        b"[" + b"1 " * 50 + b"]",
        b"[" + b"1," * 50 + b"1}",
        b"[" + b"1," * 50 + b"1] 2",
        b'{"a":' + b'"x",' * 50 + b"}",
        b'{"' + b"k" * 100 + b'" 1}',
        b'{"' + b"k" * 100 + b'"}',
        b"{1:" + b"[1]," * 50 + b"}",
        b'"' + b"x" * 100,
        b'["' + b"x" * 100 + b"\\ud83d" + b"y" * 100 + b'"]',
        b'["' + b"x" * 100 + b"\\u12" + b'"]',
        b'["' + b"x" * 100 + b"\xf0\x9f" + b'"]',
        b'["' + b"\x80" * 100 + b'"]',
        b"[" + b"9" * 5000 + b"]",
        b" " * 100,
        b"nul" + b"l" * 100,
    ],
    ids=lambda it: it[:12].decode("latin-1"),
)
def test_what_is_not_json_is_refused_wherever_a_piece_ends(text: bytes) -> None:
    assert outcome(text) == "refused"
    for piece in range(12, 60):
        assert outcome(text, piece) == "refused", piece


def test_a_key_that_comes_twice_counts_the_last_time() -> None:
    text = b'{"a":1,' + b'"b":2,' * 50 + b'"a":3}'
    assert loads_in_pieces(text, 20) == loads(text) == {"a": 3, "b": 2}


def test_long_whole_numbers_are_exact_in_every_piece() -> None:
    numbers = [10**40 + n for n in range(100)]
    assert loads_in_pieces(json.dumps(numbers), 100) == numbers


def test_levels_without_end_are_refused() -> None:
    assert outcome(b"[" * 3000 + b"1," * 50 + b"1" + b"]" * 3000, 20) == "refused"
    deep: Any = loads_in_pieces(b"[" * 900 + b"1," * 50 + b"1" + b"]" * 900, 20)
    for _ in range(899):
        (deep,) = deep
    assert deep == [1] * 51


def test_a_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(JSONDecodeError, match="not valid Unicode"):
        loads_in_pieces('["\ud800"]' * 100, 20)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"1," * 1_000_000 + b"1]",
        b"[" + b'{"a":[1,{"b":"],"}]},' * 100_000 + b"1]",
        b'{"id":7,"result":{"rows":[' + b'{"a":1},' * 250_000 + b'1]},"error":null}',
        json.dumps({f"key{n}": n for n in range(100_000)}).encode(),
        b"[" * 300 + b'"x,y",' * 300_000 + b"1" + b"]" * 300,
    ],
    ids=["numbers", "nested", "answer", "members", "deep"],
)
def test_no_call_into_c_reads_more_than_a_piece(text: bytes) -> None:
    """Between two of them other threads run. What a call is given cannot be seen, but how many there are."""
    reads = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal reads
        reads += event == "c_call" and argument is orjson.loads

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        value = loads_in_pieces(text)
    finally:
        sys.setprofile(before)
    assert value == loads(text)
    assert len(text) / PIECE <= reads <= 5 * len(text) / PIECE + 600


class Counting:
    """An expression that counts what it finds."""

    def __init__(self, expression: re.Pattern[bytes]) -> None:
        self._expression = expression
        self.found = 0

    def finditer(self, *where: Any) -> Iterator[re.Match[bytes]]:
        for match in self._expression.finditer(*where):
            self.found += 1
            yield match


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        '{"a":' * 60_000,
        "[" * 300 + "[]," * 60_000 + "1" + "]" * 300,
        "[[]," * 300 + "{}," * 60_000 + "1" + "]" * 300,
        '{"a":' * 300 + "[" + "[{}]," * 30_000 + "1]" + "}" * 300,
    ],
    ids=["open lists", "open objects", "a long list below", "siblings at each level", "in objects"],
)
def test_the_brackets_of_deep_levels_are_not_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    counting = Counting(json_pieces._BRACKET)
    monkeypatch.setattr(json_pieces, "_BRACKET", counting)
    brackets = sum(map(text.count, "[]{}"))
    with contextlib.suppress(JSONDecodeError):
        assert loads_in_pieces(text) == loads(text)
    assert counting.found < 5 * brackets
