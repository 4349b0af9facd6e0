"""The JSON of a request: read up to a limit, and in a thread if it is large."""

from __future__ import annotations

import asyncio
from typing import Any

from toolrun.json import loads
from toolrun.json_pieces import loads_in_pieces
from toolrun.mcp.server.client_message import RefusedError, check_keys
from toolrun.mcp.server.fast_path import Message, Receive, Scope
from toolrun.processes.framing import LARGE, is_mostly_text
from toolrun.server.request_error import RequestError


async def read_body(scope: Scope, receive: Receive, limit: int, first: Message | None = None) -> Any:
    """The JSON of a request, of which the first part may have been received. Raises RequestError."""
    given = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if int(given) > limit:
        raise RequestError(413, f"the body may have at most {limit:,} bytes")
    message = first if first is not None else await receive()
    parts, size = [], 0
    while True:
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the client left in the middle of its request")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise RequestError(413, f"the body may have at most {limit:,} bytes")
        if not message.get("more_body"):
            break
        message = await receive()
    body = b"".join(parts)
    return parse_body(body) if size <= LARGE else await asyncio.to_thread(parse_body, body)


def parse_body(body: bytes) -> Any:
    """The value of a JSON text; in a thread if that is large. Raises RequestError."""
    try:
        is_simple = len(body) <= LARGE or is_mostly_text([body], len(body))
        value = loads(body) if is_simple else loads_in_pieces(body)
        if type(value) is dict:
            check_keys(body, value)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON: {error}") from None
    except RefusedError as error:
        raise RequestError(400, str(error)) from None
    return value
