"""Bytes into JSON-RPC messages, whatever the bytes are."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import dump_line
from toolrun.mcp.client.message import TAIL, answered_request, decode, decode_large
from toolrun.processes.framing import InvalidLine, LargeLine, LineFramer

LIMIT = 1000


def feed_all(data: bytes, size: int, limit: int = LIMIT) -> list[dict[str, object] | InvalidLine]:
    framer = LineFramer(limit, tail=TAIL)
    found: list[dict[str, object] | InvalidLine] = []
    for start in range(0, len(data), size):
        for line in framer.feed(data[start : start + size]):
            assert not isinstance(line, LargeLine)
            found += decode(line) if isinstance(line, bytes) else [line]
    return found


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.integers(-9, 9) | st.text(max_size=9), max_size=3), max_size=5),
    st.integers(1, 50),
)
def test_messages_arrive_however_they_are_cut(messages: list[dict[str, object]], size: int) -> None:
    data = b"".join(map(dump_line, messages))
    assert feed_all(data, size) == messages


@given(st.binary(max_size=300), st.integers(1, 50), st.integers(1, 100))
def test_any_bytes_are_read_without_an_exception_and_the_next_message_arrives(
    data: bytes, size: int, limit: int
) -> None:
    *_, last = feed_all(data + b'\n{"id":1}\n', size, max(limit, 10))
    assert last == {"id": 1}


@given(st.integers(1, 400))
def test_of_a_line_that_is_too_long_the_ends_are_looked_at(size: int) -> None:
    long = b"x" * (2 * LIMIT)
    first = b'{"jsonrpc":"2.0","id":7,"result":{"text":"' + long + b'"}}\n'
    last = b'{"result":{"text":"' + long + b'"},"jsonrpc":"2.0","id":8}\n'
    notification = b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + long + b'","id":9}}\n'
    found = feed_all(first + last + notification + b'{"id":1}\n', size)
    assert [answered_request(it) if isinstance(it, InvalidLine) else it for it in found] == [7, 8, None, {"id": 1}]
    assert all(str(LIMIT // 1000) + ",000" in it.reason for it in found if isinstance(it, InvalidLine))


@pytest.mark.parametrize(
    ("line", "reason", "id"),
    [
        (b"Starting", "not JSON", None),
        (b'{"jsonrpc":"2.0","id":3,"result":{"n":nope}}', "not JSON", 3),
        (b'{"result":{"n":nope},"jsonrpc":"2.0","id":4}', "not JSON", 4),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":nope},"id":4}', "not JSON", None),
        (b'"text"', "not a JSON-RPC message", None),
        (b"[]", "not a JSON-RPC message", None),
        (b"[1]", "not a JSON-RPC message", None),
    ],
)
def test_what_is_no_message_is_told_with_its_content(line: bytes, reason: str, id: int | None) -> None:
    [invalid] = decode(line)
    assert isinstance(invalid, InvalidLine)
    assert reason in invalid.reason
    assert invalid.excerpt == line.decode()
    assert answered_request(invalid) == id


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"NaN", None),
        (b"[Infinity, -Infinity, 1e999, 1.5]", [None, None, None, 1.5]),
        (rb'"a\ud83d"', "a\ufffd"),
        (rb'"\ude00\ud83d\ude00\uD83D\uDE00\\ud83d"', "\ufffd\U0001f600\U0001f600\\ud83d"),
        (rb'{"\udead": 1}', {"\ufffd": 1}),
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_what_json_cannot_hold_costs_no_more_than_itself(written: bytes, read: object, is_large: bool) -> None:
    filler = b"[" + b",".join([rb'"\u00e9\ud83d\ude00"'] * 100_000) + b"]" if is_large else b"[]"
    line = b'{"jsonrpc":"2.0","id":3,"result":{"value":' + written + b',"filler":' + filler + b',"last":NaN}}'
    [message] = decode_large(LargeLine((line,), line[:400], line[-64:])) if is_large else decode(line)
    assert not isinstance(message, InvalidLine)
    assert message["result"]["value"] == read
    assert set(message["result"]["filler"]) <= {"é\U0001f600"}
    assert message["id"] == 3


@given(st.text(st.characters(), max_size=20) | st.lists(st.floats() | st.text('\\"\ud800\ude00u', max_size=9)))
def test_what_pythons_json_writes_is_read(value: object) -> None:
    [message] = decode(json.dumps({"id": 1, "result": {"value": value}}).encode())
    assert not isinstance(message, InvalidLine)
    json.dumps(message, ensure_ascii=False, allow_nan=False).encode()  # is JSON, all of it


def test_a_batch_is_several_messages() -> None:
    assert decode(b'[{"id":1},{"id":2}]') == [{"id": 1}, {"id": 2}]


def test_empty_lines_are_nothing() -> None:
    assert feed_all(b'\n \r\n\t\n{"id":1}\r\n', 3) == [{"id": 1}]


@pytest.mark.parametrize("number", [2**64, 10**30, -(2**63) - 1, 2**64 - 1, 0.1, 1e300])
def test_numbers_of_any_size_arrive_as_they_were_sent(number: float) -> None:
    result = {"content": [{"type": "text", "text": "9" * 30}], "structuredContent": {"all": [1, number]}}
    [message] = decode(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())
    assert not isinstance(message, InvalidLine)
    assert json.dumps(message["result"]) == json.dumps(result)  # 1e30 == 10**30


def test_a_number_that_nobody_can_read_is_told_of() -> None:
    [invalid] = decode(b'{"jsonrpc":"2.0","id":5,"result":{"n":' + b"9" * 5000 + b"}}")
    assert isinstance(invalid, InvalidLine)
    assert answered_request(invalid) == 5


def test_integers_of_any_size_can_be_sent() -> None:
    assert json.loads(dump_line({"n": 2**100})) == {"n": 2**100}
    with pytest.raises(TypeError):
        dump_line({"n": object()})
    assert orjson.loads(dump_line({"n": "ü"})) == {"n": "ü"}
