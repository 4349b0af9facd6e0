"""Answers of the API on the wire: JSON with a status, and streams of events. Knows nothing of what is said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from toolrun.errors import ToolrunError, UsageError
from toolrun.logger import get_logger
from toolrun.mcp.server.fast_path import Receive, Send
from toolrun.server.request_error import RequestError

logger = get_logger("toolrun.serve")

Headers = list[tuple[bytes, bytes]]
_JSON: Final = (b"content-type", b"application/json")
_NO_STORE: Final = (b"cache-control", b"no-store")
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
"""What tools return is never anything but what the type says, for whoever opens an address in a browser."""
_EVENTS: Final[Headers] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    _NOSNIFF,
]
PING: Final = 15.0
"""Seconds after which a silent stream says that it is alive."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer that is not just JSON with status 200."""

    body: Any = None
    status: int = 200
    headers: Headers = field(default_factory=list)
    media_type: str = "application/json"
    """Of another than JSON the body is bytes."""


Write = Callable[[str, Any], Awaitable[None]]
"""Sends one event: its name, and its data."""


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer that arrives in events. `run` writes them, and is cancelled when the client leaves."""

    run: Callable[[Write], Awaitable[None]]


Hide = Callable[[Any], bytes]
"""The JSON text of a value, without the secrets that are in it."""


async def send_json(send: Send, body: bytes, status: int = 200) -> None:
    headers = [_JSON, _NO_STORE, _NOSNIFF, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_answer(send: Send, answer: ApiAnswer, hide: Hide, *, without_body: bool = False) -> None:
    body = hide(answer.body) if answer.media_type == "application/json" else answer.body
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", answer.media_type.encode()), _NO_STORE, _NOSNIFF, length, *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if without_body else body, "more_body": False})


async def send_no_events(send: Send) -> None:
    """What a stream would begin with, for HEAD."""
    await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_events(stream: EventStream, receive: Receive, send: Send, hide: Hide) -> None:
    """Until the stream ends or its client leaves."""
    await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
    await _send_part(send, b": connected\n\n")

    async def write(event: str, data: Any) -> None:
        await _send_part(send, b"event: %b\ndata: %b\n\n" % (event.encode(), hide(data)))

    writing = asyncio.ensure_future(stream.run(write))
    leaving = asyncio.create_task(wait_until_gone(receive))
    try:
        while not (await asyncio.wait([writing, leaving], timeout=PING, return_when=asyncio.FIRST_COMPLETED))[0]:
            await _send_part(send, b": ping\n\n")
        has_left = leaving.done()
    finally:
        for task in (writing, leaving):
            task.cancel()
        await asyncio.wait([writing, leaving])
    if not writing.cancelled() and (error := writing.exception()) is not None:
        logger.error("a stream of events failed", exc_info=error)
    if not has_left:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


def failure(error: Exception) -> ApiAnswer:
    """What a client is told of a request that could not be answered."""
    if isinstance(error, RequestError):
        headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
        return ApiAnswer({"error": str(error)}, error.status, headers)
    if isinstance(error, UsageError):
        return ApiAnswer({"error": str(error)}, 400)
    if isinstance(error, ToolrunError):
        return ApiAnswer({"error": str(error)}, 503)
    logger.error("a request failed", exc_info=error)
    return ApiAnswer({"error": "internal error in toolrun; the log has the details"}, 500)
