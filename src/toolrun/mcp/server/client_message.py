"""Messages of clients that need more than a parser: those with a key twice, and large ones.

A key that is sent twice with different values is refused, because one of them would be lost. Parsers do not tell; but
they find fewer keys than the text has, which is seen quickly.

A large message is read in a thread. The SDK would read it again, in one call on the event loop, so over HTTP it gets
one without the arguments, which are held here until the call begins. Nothing but a call needs to be large.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, ErrorData

from toolrun.json import JSON, dumps, loads
from toolrun.json_pieces import loads_in_pieces
from toolrun.processes.framing import LARGE, is_mostly_text
from toolrun.schema.reading import RepeatedKeyError, read_json

CALL: Final = "tools/call"
_KEY: Final = re.compile(rb'"[ \t\r\n]*+:')
_MAX_OUTLINE: Final = 1_000
"""Texts and values that are left in the arguments for the SDK, which compares some with headers."""
_ONLY_CALLS: Final = f"Invalid request: only the arguments of {CALL} may be larger than {LARGE:,} bytes"


class RefusedError(Exception):
    """A message that is refused: with the id of its request, if it has one."""

    def __init__(self, code: int, message: str, request_id: object = None) -> None:
        super().__init__(message)
        self.answer = {
            "jsonrpc": "2.0",
            "id": request_id if isinstance(request_id, int | str) else None,
            "error": {"code": code, "message": message},
        }


def check_keys(text: bytes, request: Mapping[str, Any]) -> None:
    """Raises RefusedError for a request whose text has a key twice, with different values."""
    keys = 0
    stack: list[Any] = [request]
    while stack:
        item = stack.pop()
        if type(item) is dict:
            keys += len(item)
            stack += item.values()
        elif type(item) is list:
            stack += item
    if text.count(b'":') == text.count(b":") == keys:
        return
    if sum(1 for _ in _KEY.finditer(text)) == keys:  # there are spaces before colons, or colons in texts
        return
    try:
        read_json(text)
    except RepeatedKeyError as error:
        raise RefusedError(INVALID_PARAMS, str(error), request.get("id")) from None
    except ValueError:
        return


def read_large(data: bytes) -> dict[str, Any]:
    """A large call. In a thread, unless it is mostly text. Raises RefusedError."""
    try:
        message = loads(data) if is_mostly_text([data], len(data)) else loads_in_pieces(data)
    except ValueError as error:
        raise RefusedError(PARSE_ERROR, f"Parse error: {error}") from None
    if not isinstance(message, dict):
        raise RefusedError(INVALID_REQUEST, "Invalid request: one JSON-RPC message is expected")
    number, params = message.get("id"), message.get("params")
    arguments = params.get("arguments") if isinstance(params, dict) else None
    if message.get("method") != CALL or not isinstance(number, int | str) or not isinstance(arguments, dict):
        raise RefusedError(INVALID_REQUEST, _ONLY_CALLS, number)
    rest = {**message, "params": {**message["params"], "arguments": {}}}
    if message.get("jsonrpc") != "2.0" or len(dumps(rest)) > LARGE:
        raise RefusedError(INVALID_REQUEST, _ONLY_CALLS, number)
    check_keys(data, message)
    return message


class HeldArguments:
    """The arguments of large calls that are on their way through the SDK."""

    def __init__(self) -> None:
        self._mark = f"toolrun.arguments.{secrets.token_hex(8)}"
        """The argument that names them, which no client can guess."""
        self._held: dict[str, dict[str, JSON]] = {}

    @contextmanager
    def holding(self, message: dict[str, Any]) -> Iterator[bytes]:
        """The message for the SDK, which is good in this block."""
        token = secrets.token_hex(8)
        arguments = message["params"]["arguments"]
        outline = {**_outline(arguments), self._mark: token}
        self._held[token] = arguments
        try:
            yield dumps({**message, "params": {**message["params"], "arguments": outline}})
        finally:
            self._held.pop(token, None)

    def real(self, arguments: dict[str, JSON] | None) -> dict[str, JSON] | None:
        """The arguments of a call. Raises MCPError if nobody waits for it any more."""
        if arguments is None or self._mark not in arguments:
            return arguments
        held = self._held.get(str(arguments[self._mark]))
        if held is None:
            raise MCPError.from_error_data(ErrorData(code=INVALID_REQUEST, message="The request was given up"))
        return held


def _outline(arguments: dict[str, Any]) -> dict[str, Any]:
    """The short values in objects: those that headers can repeat."""
    found: dict[str, Any] = {}
    for key, value in arguments.items():
        if len(found) >= _MAX_OUTLINE:
            break
        if isinstance(value, dict) and len(value) <= _MAX_OUTLINE:
            found[key] = _outline(value)
        elif not isinstance(value, dict | list) and not (isinstance(value, str) and len(value) > _MAX_OUTLINE):
            found[key] = value
    return found
