"""The frames on the connection between a gateway and a replica: one byte for the type, four for the length, a body.

Pure. A body is bytes of the worker's pipes, a number, or JSON. Both sides are toolrun of the same version.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from toolrun.json import JSON, dumps, loads

_HEAD: Final = struct.Struct(">BI")
_NUMBERS: Final = struct.Struct(">QQQ")
MAX_BODY: Final = 64 << 20
"""Bytes. A script is smaller, and what goes through the pipes comes in pieces."""
PIECE: Final = 1 << 17
"""Bytes of the pipes in one frame, so that a beat need not wait for long."""


class FrameType(IntEnum):
    """What a frame is about."""

    DATA = 1
    """Both ways: bytes to the worker, or of it."""
    # Gateway → replica.
    RECIPE = 2
    """First, and once: how the process is made."""
    START = 3
    """Once: start it."""
    ACKNOWLEDGE = 4
    """The number of a beat."""
    KILL = 5
    CLOSE = 6
    """Let it end by itself within so many seconds."""
    # Replica → gateway.
    BEAT = 7
    """A number, the pid of the worker, and the bytes of memory that it uses."""
    NOTE = 8
    """A line about what is done before the start."""
    PREPARED = 9
    REFUSED = 10
    """The process cannot be made, and why."""
    STARTED = 11
    LOG = 12
    """A line of its stderr."""
    OUTDATED = 13
    """Its walls have an opening."""
    ENDED = 14
    """Its exit code, and the last lines on stderr."""


class FrameError(ValueError):
    """The other side sent something that is no frame."""


def encode(frame_type: FrameType, body: bytes = b"") -> bytes:
    return _HEAD.pack(frame_type, len(body)) + body


def encode_json(frame_type: FrameType, body: JSON) -> bytes:
    return encode(frame_type, dumps(body))


def encode_numbers(frame_type: FrameType, first: int, second: int = 0, third: int = 0) -> bytes:
    return encode(frame_type, _NUMBERS.pack(first, second, third))


def encode_data(data: bytes) -> list[bytes]:
    """Bytes of a pipe, as frames of a bounded length."""
    if len(data) <= PIECE:
        return [encode(FrameType.DATA, data)]
    view = memoryview(data)
    return [encode(FrameType.DATA, view[start : start + PIECE].tobytes()) for start in range(0, len(data), PIECE)]


def decode_json(body: bytes) -> dict[str, JSON]:
    """Raises FrameError."""
    try:
        value = loads(body)
    except ValueError as error:
        raise FrameError(f"a frame has a body that is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameError("a frame has a body that is not an object")
    return value


def decode_numbers(body: bytes) -> tuple[int, int, int]:
    """Raises FrameError."""
    if len(body) != _NUMBERS.size:
        raise FrameError(f"a frame has {len(body)} bytes in place of three numbers")
    first, second, third = _NUMBERS.unpack(body)
    return first, second, third


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._needed = _HEAD.size

    def feed(self, data: bytes) -> list[tuple[FrameType, bytes]]:
        """The frames that `data` completes. Raises FrameError."""
        if self._parts or self._size:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return []
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
        frames: list[tuple[FrameType, bytes]] = []
        start, end, self._needed = 0, len(data), _HEAD.size
        while end - start >= _HEAD.size:
            number, length = _HEAD.unpack_from(data, start)
            if length > MAX_BODY or number not in FrameType._value2member_map_:
                raise FrameError(f"a frame of type {number} with {length:,} bytes")
            stop = start + _HEAD.size + length
            if stop > end:
                self._needed = stop - start
                break
            frames.append((FrameType(number), data[start + _HEAD.size : stop]))
            start = stop
        if start < end:
            self._parts, self._size = [data[start:]], end - start
        return frames
