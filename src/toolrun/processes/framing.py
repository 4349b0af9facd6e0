"""Cuts a stream of bytes into lines, each with a cap on its length. Pure; knows nothing of what a line means.

Whoever writes to the pipe can write what it likes, so a line that gets too long is dropped while it arrives, except
for its two ends, and reported as an `InvalidLine`. Decoders use the same value for a line that they cannot read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_EXCERPT: Final = 200
_HEAD: Final = 2 * _EXCERPT


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


class LineFramer:
    """The lines of one stream.

    A line longer than `limit` bytes is reported as soon as it is too long, with its first `head` bytes. With `tail` it
    is reported when it has ended, with as many of its last bytes as well.
    """

    __slots__ = ("_head", "_head_size", "_limit", "_parts", "_size", "_tail_size")

    def __init__(self, limit: int, *, head: int = _HEAD, tail: int = 0) -> None:
        self._limit = limit
        self._head_size = head
        self._tail_size = tail
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes of the unfinished line, whether they are kept or not."""
        self._head: bytes | None = None
        """The beginning of the unfinished line, once it is too long."""

    def feed(self, data: bytes) -> Sequence[bytes | InvalidLine]:
        """The lines that `data` completes, without their ends. At the end of a stream, feed it b"\\n"."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._size or len(data) > self._limit:
            return self._join(lines, rest)
        if rest:
            self._parts.append(rest)
            self._size = len(rest)
        return lines

    def _join(self, ends: list[bytes], rest: bytes) -> list[bytes | InvalidLine]:
        """The same, where the first line began earlier or one may be too long."""
        lines: list[bytes | InvalidLine] = []
        for end in ends:
            overlong = self._keep(end)
            line, head, size = b"".join(self._parts), self._head, self._size
            self._parts, self._head, self._size = [], None, 0
            if overlong is not None:
                lines.append(overlong)
            elif head is None:
                lines.append(line)
            elif self._tail_size:
                lines.append(InvalidLine(f"a line of {size:,} bytes, more than {self._limit:,}", head, line))
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
