"""The wire: whatever comes in as bytes comes out as messages or as invalid lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import JSON
from toolrun.processes.framing import InvalidLine, Line, LineFramer
from toolrun.scripts.wire import (
    MAX_LINE,
    Answer,
    Progressed,
    Raised,
    Ready,
    decode,
    encode_cancel,
    encode_request,
)

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_a_request_is_one_line_with_exactly_its_keys() -> None:
    data = encode_request(7, "5f0c", "add", {"text": "a\nb"}, {}, {"K": "v"})
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")
    assert json.loads(data) == {
        "id": 7,
        "key": "5f0c",
        "function": "add",
        "kwargs": {"text": "a\nb"},
        "config": {},
        "secrets": {"K": "v"},
    }
    assert json.loads(encode_cancel(7)) == {"id": 7, "cancel": True}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id":1,"result":3,"error":null}', Answer(1, 3, None)),
        (b'{"id":1,"result":null,"error":"no"}', Answer(1, None, "no")),
        (b'{"id":1,"progress":{"progress":1}}', Progressed(1, {"progress": 1})),
        (b'{"id":1,"raised":["builtins.OSError"]}', Raised(1, ("builtins.OSError",))),
        (b'{"ready":{"pid":1}}', Ready({"pid": 1})),
    ],
)
def test_each_message_is_known(line: bytes, message: object) -> None:
    assert decode(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[1]",
        b"3",
        b"{}",
        b'{"id":"1","result":1,"error":null}',
        b'{"id":true,"result":1,"error":null}',
        b'{"id":1,"result":1}',
        b'{"id":1,"error":7,"result":null}',
        b'{"ready":1}',
        b"\xff\xfe",
        b'{"id":1,"result":NaN,"error":null}',
    ],
)
def test_everything_else_is_an_invalid_line_that_says_why(line: bytes) -> None:
    message = decode(line)
    assert isinstance(message, InvalidLine)
    assert message.reason


@given(st.lists(JSON_VALUES, max_size=5), st.data())
def test_lines_survive_any_cutting_of_the_stream(values: list[JSON], data: st.DataObject) -> None:
    messages = [json.dumps({"id": n, "result": value, "error": None}).encode() for n, value in enumerate(values)]
    stream = b"".join(message + b"\n" for message in messages)
    lines, position = LineFramer(MAX_LINE), 0
    found: list[Line] = []
    while position < len(stream):
        step = data.draw(st.integers(1, max(1, len(stream) - position)))
        found += lines.feed(stream[position : position + step])
        position += step
    assert found == messages
    assert [decode(line) for line in messages] == [Answer(n, value, None) for n, value in enumerate(values)]


@given(st.binary())
def test_decoding_never_raises(data: bytes) -> None:
    assert isinstance(decode(data), InvalidLine), "no such bytes are a message"


@pytest.mark.parametrize(
    "result", [10**30, -(2**64), 2**63, -(2**63) - 1, [1, {"n": 10**40}], {"digits": "9" * 30, "n": 1.5}, [1e300, 0.1]]
)
def test_numbers_of_any_size_arrive_as_they_were_sent(result: JSON) -> None:
    line = json.dumps({"id": 1, "result": result, "error": None}).encode()
    answer = decode(line)
    assert isinstance(answer, Answer)
    assert answer.result == result
    assert json.dumps(answer.result) == json.dumps(result)  # 1e30 == 10**30
