"""Cuts a stream of bytes into lines, each with a cap on its length. Pure; knows nothing of what a line means.

Whoever writes to the pipe can write what it likes, so a line that gets too long is dropped while it arrives, except
for its two ends, and reported as an `InvalidLine`. Decoders use the same value for a line that they cannot read.

A line that takes long to read is a `LargeLine`, for those who ask for it: what it says is found out in a thread. One
that is mostly a long text does not: reading that is hardly more than copying it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

_EXCERPT: Final = 200
_HEAD: Final = 2 * _EXCERPT
_CHUNK: Final = 4096
LARGE: Final = 500_000
"""Bytes of a line that are read on the event loop, which takes up to 10 ms."""
_MAX_TEXT: Final = 8_000_000
_FEW: Final = 50_000
"""Bytes of a line with few commas that are read there as well, which takes as long."""


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is not a message, and why."""

    reason: str
    """A noun phrase: it follows "wrote" in messages."""
    head: bytes
    """How the line begins."""
    tail: bytes = b""
    """How it ends, if that is known."""

    @property
    def excerpt(self) -> str:
        """The beginning, for a message."""
        return self.head[:_EXCERPT].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LargeLine:
    """A line that takes long to read, as it came."""

    parts: tuple[bytes, ...]
    head: bytes
    tail: bytes

    def join(self) -> bytes:
        """The line. In a thread: to copy it takes a while."""
        return b"".join(self.parts)


Line: TypeAlias = bytes | LargeLine | InvalidLine


class LineFramer:
    """The lines of one stream.

    A line longer than `limit` bytes is reported as soon as it is too long, with its first `head` bytes. With `tail` it
    is reported when it has ended, with as many of its last bytes as well. One of more than `large`, and with more than
    a `few` commas, is a `LargeLine`.
    """

    __slots__ = ("_few", "_head", "_head_size", "_large", "_limit", "_parts", "_size", "_tail_size")

    def __init__(
        self, limit: int, *, head: int = _HEAD, tail: int = 0, large: int | None = None, few: int = _FEW
    ) -> None:
        self._limit = limit
        self._few = few
        self._large = limit if large is None else min(large, limit)
        self._head_size = head
        self._tail_size = tail
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes of the unfinished line, whether they are kept or not."""
        self._head: bytes | None = None
        """The beginning of the unfinished line, once it is too long."""

    def feed(self, data: bytes) -> Sequence[Line]:
        """The lines that `data` completes, without their ends. At the end of a stream, feed it b"\\n"."""
        if len(data) > _CHUNK and b"\n" not in data:  # to search takes a fraction of the time that it takes to split
            return self._join([], data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._size or len(data) > self._large:
            return self._join(lines, rest)
        if rest:
            self._parts.append(rest)
            self._size = len(rest)
        return lines

    def _join(self, ends: list[bytes], rest: bytes) -> list[Line]:
        """The same, where the first line began earlier or one may be too long."""
        lines: list[Line] = []
        for end in ends:
            overlong = self._keep(end)
            parts, head, size = self._parts, self._head, self._size
            self._parts, self._head, self._size = [], None, 0
            if overlong is not None:
                lines.append(overlong)
            elif head is None and size > self._large and not is_mostly_text(parts, size, self._few):
                lines.append(LargeLine(tuple(parts), _begin(parts, self._head_size), _end(parts, self._tail_size)))
            elif head is None:
                lines.append(b"".join(parts))
            elif self._tail_size:
                tail = b"".join(parts)
                lines.append(InvalidLine(f"a line of {size:,} bytes, more than {self._limit:,}", head, tail))
        if rest and (overlong := self._keep(rest)) is not None:
            lines.append(overlong)
        return lines

    def _keep(self, part: bytes) -> InvalidLine | None:
        """Add a part to the unfinished line. The report, if the line is to be reported now."""
        self._parts.append(part)
        self._size += len(part)
        if self._size <= self._limit:
            return None
        line, is_new = b"".join(self._parts), self._head is None
        if self._head is None:
            self._head = line[: self._head_size]
        self._parts = [line[-self._tail_size :]] if self._tail_size else []
        if self._tail_size or not is_new:
            return None
        return InvalidLine(f"a line of more than {self._limit:,} bytes", self._head)


def is_mostly_text(parts: Sequence[bytes], size: int, few: int = _FEW) -> bool:
    """Whether JSON in this line would be long texts rather than many values: those are read in no time."""
    return size <= _MAX_TEXT and sum(part.count(b",") for part in parts) <= few


def _begin(parts: Sequence[bytes], size: int) -> bytes:
    head = b""
    for part in parts:
        head += part[: size - len(head)]
        if len(head) == size:
            break
    return head


def _end(parts: Sequence[bytes], size: int) -> bytes:
    tail = b""
    for part in reversed(parts):
        if len(tail) == size:
            break
        tail = part[len(tail) - size :] + tail
    return tail
