"""What goes over the pipe to a worker and back: one JSON object a line. Pure: bytes in, messages out.

Request:  {"id", "function", "kwargs", "config", "secrets"}
Answer:   {"id", "result", "error"}
Besides, from the worker: {"ready": …} once, {"id", "progress"} and {"id", "raised"} while a call runs; from the host:
{"id", "cancel"}. `inside/worker.py` has the other side of the contract.

Lines are cut off before they are parsed: a worker can write what it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from toolrun.json import JSON, dump_line, loads

MAX_LINE: Final = 64 * 1024 * 1024
_EXCERPT: Final = 200


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded its script, or says why it could not."""

    info: dict[str, JSON]


@dataclass(slots=True)
class Answer:
    """A value, although not frozen: there is one for each call, and a frozen one takes three times as long to make."""

    id: int
    result: JSON
    error: str | None


@dataclass(frozen=True, slots=True)
class Progressed:
    id: int
    progress: dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Raised:
    """The classes of the exception that the next answer of this id is about, the most specific first."""

    id: int
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rubbish:
    """A line that is no message."""

    reason: str
    excerpt: str


Message = Ready | Answer | Progressed | Raised | Rubbish


def encode_request(number: int, function: str, kwargs: object, config: object, secrets: object) -> bytes:
    """Raises TypeError for arguments that are not JSON."""
    request = {"id": number, "function": function, "kwargs": kwargs, "config": config, "secrets": secrets}
    return dump_line(request)


def encode_cancel(number: int) -> bytes:
    return b'{"id":%d,"cancel":true}\n' % number


class Lines:
    """Cuts a stream of bytes into lines. What is too long for a line is dropped and reported."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | Rubbish]:
        """The lines that `data` completes, without their ends."""
        lines: list[bytes | Rubbish] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = self._complete(end)
            if line is not None:
                lines.append(line)
        if rest:
            overflow = self._keep(rest)
            if overflow is not None:
                lines.append(overflow)
        return lines

    def _complete(self, end: bytes) -> bytes | Rubbish | None:
        if self._dropping:
            self._dropping = False
            return None
        if self._size + len(end) > self._limit:
            overflow = self._too_long(self._parts[0] if self._parts else end)
            self._dropping = False
            return overflow
        if not self._parts:
            return end
        line = b"".join([*self._parts, end])
        self._parts.clear()
        self._size = 0
        return line

    def _keep(self, rest: bytes) -> Rubbish | None:
        if self._dropping:
            return None
        self._parts.append(rest)
        self._size += len(rest)
        if self._size <= self._limit:
            return None
        return self._too_long(self._parts[0])

    def _too_long(self, start: bytes) -> Rubbish:
        self._parts.clear()
        self._size = 0
        self._dropping = True
        return Rubbish(f"a line of more than {self._limit:,} bytes", _excerpt(start))


def decode(line: bytes) -> Message:
    """The message in a line. Never raises: what is no message is Rubbish."""
    try:
        data: Any = loads(line)
    except ValueError as error:
        return Rubbish(f"not JSON ({error})", _excerpt(line))
    if not isinstance(data, dict):
        return Rubbish("not an object", _excerpt(line))
    number = data.get("id")
    if type(number) is int:
        if "error" in data and "result" in data and (data["error"] is None or isinstance(data["error"], str)):
            return Answer(number, data["result"], data["error"])
        if isinstance(data.get("progress"), dict):
            return Progressed(number, data["progress"])
        if isinstance(data.get("raised"), list):
            return Raised(number, tuple(map(str, data["raised"])))
    elif isinstance(data.get("ready"), dict):
        return Ready(cast(dict[str, JSON], data["ready"]))
    return Rubbish("not a message that is known", _excerpt(line))


def _excerpt(line: bytes) -> str:
    return line[:_EXCERPT].decode("utf-8", "replace")
