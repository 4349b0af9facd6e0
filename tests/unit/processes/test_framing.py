"""A stream of bytes into lines, whatever the bytes are and however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.processes.framing import InvalidLine, LargeLine, Line, LineFramer

LIMIT = 1000
TAIL = 64
PARTS = st.lists(st.binary(max_size=30), max_size=20)


@given(PARTS, st.integers(1, 40), st.sampled_from([0, 5]))
def test_no_line_is_longer_than_the_limit_and_what_follows_a_long_one_is_whole(
    parts: list[bytes], limit: int, tail: int
) -> None:
    framer = LineFramer(limit, tail=tail)
    found: list[Line] = []
    for part in parts:
        found += framer.feed(part)
    expected = b"".join(parts).split(b"\n")[:-1]
    assert [line for line in found if isinstance(line, bytes)] == [line for line in expected if len(line) <= limit]


@given(PARTS, st.integers(1, 40), st.sampled_from([0, 5]))
def test_a_line_that_is_too_long_is_reported_once_and_in_its_place(parts: list[bytes], limit: int, tail: int) -> None:
    framer = LineFramer(limit, tail=tail)
    found: list[Line] = []
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


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 10_000])
def test_chunks_of_any_size_make_the_same_lines(size: int) -> None:
    data = b"short\n" + b"x" * 30_000 + b"\n\n" + b"y" * 9_999 + b"\nend\n"
    framer = LineFramer(100_000)
    lines = [line for at in range(0, len(data), size) for line in framer.feed(data[at : at + size])]
    assert lines == data.split(b"\n")[:-1]


@given(PARTS, st.integers(1, 40), st.integers(1, 40), st.sampled_from([0, 5]))
def test_a_large_line_is_whole_and_known_by_its_two_ends(parts: list[bytes], limit: int, large: int, tail: int) -> None:
    framer = LineFramer(limit, head=7, tail=tail, large=large, few=-1)
    found: list[Line] = []
    for part in [*parts, b"\n"]:
        found += framer.feed(part)
    for line, whole in zip(found, b"".join([*parts, b"\n"]).split(b"\n")[:-1], strict=True):
        if isinstance(line, LargeLine):
            assert large < len(whole) <= limit
            assert (line.join(), line.head, line.tail) == (whole, whole[:7], whole[-tail:] if tail else b"")
        else:
            assert isinstance(line, bytes) == (len(whole) <= min(large, limit))


def test_a_long_line_with_few_commas_is_a_text_and_not_large() -> None:
    framer = LineFramer(100, large=10, few=2)
    assert framer.feed(b"a long text, in which, two commas stand\n") == [b"a long text, in which, two commas stand"]
    [line] = framer.feed(b"1,2,3,4 and so on, many values\n")
    assert isinstance(line, LargeLine)
    assert line.join() == b"1,2,3,4 and so on, many values"
    huge = LineFramer(20_000_000, large=10)
    assert [type(it) for it in huge.feed(b"x" * 8_000_000 + b"\n" + b"x" * 8_000_001 + b"\n")] == [bytes, LargeLine]
