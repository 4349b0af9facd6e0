"""A stream of bytes into lines, whatever the bytes are and however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.processes.framing import InvalidLine, LineFramer

LIMIT = 1000
TAIL = 64
PARTS = st.lists(st.binary(max_size=30), max_size=20)


@given(PARTS, st.integers(1, 40), st.sampled_from([0, 5]))
def test_no_line_is_longer_than_the_limit_and_what_follows_a_long_one_is_whole(
    parts: list[bytes], limit: int, tail: int
) -> None:
    framer = LineFramer(limit, tail=tail)
    found: list[bytes | InvalidLine] = []
    for part in parts:
        found += framer.feed(part)
    expected = b"".join(parts).split(b"\n")[:-1]
    assert [line for line in found if isinstance(line, bytes)] == [line for line in expected if len(line) <= limit]


@given(PARTS, st.integers(1, 40), st.sampled_from([0, 5]))
def test_a_line_that_is_too_long_is_reported_once_and_in_its_place(parts: list[bytes], limit: int, tail: int) -> None:
    framer = LineFramer(limit, tail=tail)
    found: list[bytes | InvalidLine] = []
    for part in [*parts, b"\n"]:
        found += framer.feed(part)
    for line, whole in zip(found, b"".join([*parts, b"\n"]).split(b"\n")[:-1], strict=True):
        assert isinstance(line, bytes) == (len(whole) <= limit)
        if isinstance(line, InvalidLine):
            assert whole.startswith(line.head)
            assert line.tail == (whole[-tail:] if tail else b"")


def test_a_line_is_reported_before_it_has_ended() -> None:
    framer = LineFramer(LIMIT)
    assert framer.feed(b"x" * LIMIT) == []
    [invalid] = framer.feed(b"y")
    assert isinstance(invalid, InvalidLine)
    assert invalid.reason == "a line of more than 1,000 bytes"
    assert invalid.excerpt == "x" * 200
    assert list(framer.feed(b"z" * LIMIT)) == []
    assert list(framer.feed(b"z\nnext\n")) == [b"next"]


@pytest.mark.parametrize("head", [0, 10, 2 * LIMIT])
def test_as_much_of_the_beginning_is_kept_as_is_wanted(head: int) -> None:
    [invalid] = LineFramer(LIMIT, head=head).feed(b"x" * 2 * LIMIT + b"\n")
    assert isinstance(invalid, InvalidLine)
    assert invalid.head == b"x" * head


def test_memory_stays_small_while_a_line_is_dropped() -> None:
    framer = LineFramer(LIMIT, tail=TAIL)
    for _ in range(1000):
        assert list(framer.feed(b"x" * 500)) == []
    assert sum(map(len, framer._parts)) <= LIMIT
    [invalid] = framer.feed(b"\n")
    assert isinstance(invalid, InvalidLine)
    assert "500,000 bytes" in invalid.reason
    assert invalid.tail == b"x" * TAIL


def test_the_last_line_need_not_have_an_end() -> None:
    framer = LineFramer(LIMIT)
    assert list(framer.feed(b"one\ntwo")) == [b"one"]
    assert list(framer.feed(b"\n")) == [b"two"]
