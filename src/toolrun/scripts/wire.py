"""What goes over the pipe to a worker and back: one JSON object a line. Pure: bytes in, messages out.

Request:  {"id", "function", "kwargs", "config", "secrets"}
Answer:   {"id", "result", "error"}
Besides, from the worker: {"ready": …} once, {"id", "progress"} and {"id", "raised"} while a call runs; from the host:
{"id", "cancel"}. `worker/__main__.py` has the other side of the contract.

`processes/framing.py` cuts the stream into lines before they are parsed here: a worker can write what it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from toolrun.json import JSON, dump_line, loads
from toolrun.processes.framing import InvalidLine

MAX_LINE: Final = 64 * 1024 * 1024


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


Message = Ready | Answer | Progressed | Raised | InvalidLine


def encode_request(number: int, function: str, kwargs: object, config: object, secrets: object) -> bytes:
    """Raises TypeError for arguments that are not JSON."""
    request = {"id": number, "function": function, "kwargs": kwargs, "config": config, "secrets": secrets}
    return dump_line(request)


def encode_cancel(number: int) -> bytes:
    return b'{"id":%d,"cancel":true}\n' % number


def decode(line: bytes) -> Message:
    """The message in a line. Never raises: a line that is not a message is an InvalidLine."""
    try:
        data: Any = loads(line)
    except ValueError as error:
        return InvalidLine(f"not JSON ({error})", line)
    if not isinstance(data, dict):
        return InvalidLine("not an object", line)
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
    return InvalidLine("not a message that is known", line)
