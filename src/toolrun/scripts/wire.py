"""What goes over the pipe to a worker and back: one JSON object a line. Pure: bytes in, messages out.

Request:  {"id", "key", "function", "kwargs", "config", "secrets"}, with "trace" if the call is traced
Answer:   {"id", "result", "error"}
Besides, from the worker: {"ready": …} once, {"id", "progress"} and {"id", "raised"} while a call runs; from the host:
{"id", "cancel"}. `worker/__main__.py` has the other side of the contract.

`processes/framing.py` cuts the stream into lines before they are parsed here: a worker can write what it likes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolrun.json import JSON, dump_line, loads
from toolrun.json_pieces import loads_in_pieces
from toolrun.processes.framing import InvalidLine, LargeLine

MAX_LINE: Final = 64 * 1024 * 1024
_ANSWER: Final = re.compile(rb'\{\s*"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"\s*:')


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


def encode_request(
    number: int,
    key: str,
    function: str,
    kwargs: object,
    config: object,
    secrets: object,
    trace: Mapping[str, str] | None = None,
) -> bytes:
    """`key` is the idempotency key of the call. Raises TypeError for arguments that are not JSON."""
    request = {"id": number, "key": key, "function": function, "kwargs": kwargs, "config": config, "secrets": secrets}
    return dump_line(request if trace is None else {**request, "trace": trace})


def encode_cancel(number: int) -> bytes:
    return b'{"id":%d,"cancel":true}\n' % number


def decode(line: bytes) -> Message:
    """The message in a line. Never raises: a line that is not a message is an InvalidLine."""
    try:
        data = loads(line)
    except ValueError as error:
        return InvalidLine(f"not JSON ({error})", line)
    match data:
        case {"id": int() as number, "result": result, "error": None} if type(number) is int:  # most of them
            return Answer(number, result, None)
    return _message(data, line)


def decode_large(line: LargeLine) -> Message:
    """The same, in a thread."""
    try:
        return _message(loads_in_pieces(line.join()), line.head)
    except ValueError as error:
        return InvalidLine(f"not JSON ({error})", line.head)


def answered_call(line: LargeLine) -> int | None:
    """The id of the call that a line seems to be the answer to, before the line is read."""
    found = _ANSWER.match(line.head)
    return int(found[1]) if found else None


def _message(data: Any, line: bytes) -> Message:
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
    return InvalidLine("an unknown message", line)
