"""What goes over the pipe to a stdio server and back: one JSON-RPC message a line. Pure: bytes in, messages out.

A server can write what it likes. A line is cut off before it is parsed, and what is no message is told of with its
content; if it looks like the answer to a request, it is told to which, so that this one need not wait for another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from toolrun.json import loads

_EXCERPT: Final = 200
_TAIL: Final = 64
_ID_FIRST: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"'
)
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


@dataclass(frozen=True, slots=True)
class Rubbish:
    """A line that is no message."""

    reason: str
    excerpt: str
    id: int | None = None
    """Of the request that it seems to be the answer to."""


class Messages:
    """Cuts a stream of bytes into messages. Of a line that is too long only its ends are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        """The beginning of a line that is being dropped."""

    def feed(self, data: bytes) -> list[dict[str, Any] | Rubbish]:
        """The messages that `data` completes."""
        messages: list[dict[str, Any] | Rubbish] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            if self._head:
                reason = f"a line of {self._size:,} bytes, more than {self._limit:,}"
                messages.append(Rubbish(reason, _excerpt(self._head), _id(self._head, line)))
            elif line and not line.isspace():
                messages += decode(line)
            self._parts, self._size, self._head = [], 0, b""
        if rest:
            self._keep(rest)
        return messages

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            line = b"".join(self._parts)
            self._head = self._head or line[: 2 * _EXCERPT]
            self._parts = [line[-_TAIL:]]


def decode(line: bytes) -> list[dict[str, Any] | Rubbish]:
    """The message in a line; more than one if it is a batch. Never raises: what is no message is Rubbish."""
    try:
        data: Any = loads(line)
    except ValueError as error:
        return [Rubbish(f"not JSON ({error})", _excerpt(line), _id(line, line[-_TAIL:]))]
    if isinstance(data, dict):
        return [data]
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        return list(data)
    return [Rubbish("no JSON-RPC message", _excerpt(line))]


def _id(head: bytes, tail: bytes) -> int | None:
    found = _ID_FIRST.match(head) or (_ID_LAST.search(tail) if head.lstrip().startswith(b'{"result"') else None)
    return int(found[1]) if found else None


def _excerpt(line: bytes) -> str:
    return line[:_EXCERPT].decode("utf-8", "replace")
