"""Frames: whatever the pieces in which they arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.processes.ray.frame import (
    MAX_BODY,
    PIECE,
    FrameError,
    FrameReader,
    FrameType,
    decode_json,
    decode_numbers,
    encode,
    encode_data,
    encode_json,
    encode_numbers,
)

FRAMES = st.lists(st.tuples(st.sampled_from(FrameType), st.binary(max_size=40)), max_size=8)


@given(FRAMES, st.lists(st.integers(1, 30), min_size=1))
def test_frames_come_out_as_they_went_in_wherever_the_stream_is_cut(
    frames: list[tuple[FrameType, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(encode(frame_type, body) for frame_type, body in frames)
    reader, found, place, turn = FrameReader(), [], 0, 0
    while place < len(stream):
        size = sizes[turn % len(sizes)]
        found += reader.feed(stream[place : place + size])
        place, turn = place + size, turn + 1
    assert found == frames


def test_long_data_is_cut_so_that_a_beat_need_not_wait_for_all_of_it() -> None:
    data = bytes(range(256)) * 2000
    frames = [frame for piece in encode_data(data) for frame in FrameReader().feed(piece)]
    assert b"".join(body for _, body in frames) == data
    assert {frame_type for frame_type, _ in frames} == {FrameType.DATA}
    assert max(len(body) for _, body in frames) == PIECE


@pytest.mark.parametrize("head", [b"\x00\x00\x00\x00\x01x", b"\xff\x00\x00\x00\x00"])
def test_an_unknown_kind_is_an_error(head: bytes) -> None:
    with pytest.raises(FrameError, match="a frame of type"):
        FrameReader().feed(head)


def test_a_frame_that_would_be_too_long_is_an_error_before_it_arrives() -> None:
    head = bytes([FrameType.DATA]) + (MAX_BODY + 1).to_bytes(4, "big")
    with pytest.raises(FrameError, match="67,108,865 bytes"):
        FrameReader().feed(head)


def test_bodies_that_are_not_what_they_should_be_are_errors() -> None:
    assert decode_numbers(encode_numbers(FrameType.BEAT, 1, 2, 3)[5:]) == (1, 2, 3)
    assert decode_json(encode_json(FrameType.ENDED, {"code": 1})[5:]) == {"code": 1}
    for body in (b"", b"[]", b"{"):
        with pytest.raises(FrameError):
            decode_json(body)
    with pytest.raises(FrameError, match="3 bytes"):
        decode_numbers(b"123")
