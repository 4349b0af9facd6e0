"""Decides by the head of a request whether it is read at all, and lets the pages of allowed origins read the answer.

The client must use a name of this server (which a web page whose own name resolves to this machine does not), a browser
must send it from a page under such a name or of an allowed origin, and it needs the token, if there is one, and JSON. A
header that decides this must be there once: of two, a proxy may have looked at the other one. Public paths, such as
those of the page, go without the token: a browser cannot send it with the address that somebody opens.

A browser asks first whether a page of another origin may send a request (CORS). It is told so for the allowed origins
only; it asks without the token.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from toolrun.json import dumps
from toolrun.mcp.server.fast_path import HAS_BEGUN, App, Message, Receive, Scope, Send
from toolrun.mcp.server.http_address import Address

Headers = list[tuple[bytes, bytes]]

_PORT: Final = re.compile(r":[0-9]+\Z")
"""At the end of a Host header."""
_SINGLE: Final = (b"host", b"origin", b"authorization", b"content-type", b"idempotency-key")
_METHODS: Final = b"GET, POST, DELETE"
_REQUEST_HEADERS: Final = frozenset({"accept", "authorization", "content-type", "idempotency-key", "last-event-id"})
"""Headers that a page may send, besides those that start with `Mcp-`."""
_EXPOSED: Final = b"mcp-session-id, mcp-protocol-version, www-authenticate"
"""Headers of an answer that a page may read, besides those that it always may."""
_MAX_AGE: Final = b"600"
"""Seconds for which a browser need not ask again."""


class Guard:
    """An ASGI application that refuses requests by their head, and passes the others on to another application."""

    def __init__(
        self,
        app: App,
        address: Address,
        public_paths: frozenset[str] = frozenset(),
        is_read_only: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """`public_paths` hold nothing secret and change nothing: they can be read without the token.

        A path that is read-only answers every POST with 405, whatever its type.
        """
        self._app = app
        self._public_paths = public_paths
        self._is_read_only = is_read_only
        self._names = address.names()
        self._origins = frozenset(origin.encode() for origin in address.allow_origins)
        self._token = address.token.encode()
        self._running: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        # A space around a value is no part of it; httptools leaves those at the end.
        headers: Headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope["headers"] = headers
        found = dict(headers)
        if self._origins and (origin := found.get(b"origin")) is not None and self._is_allowed(origin):
            send = _sharing(origin, send)
        is_public = scope["path"] in self._public_paths
        refusal = self._refusal(scope, headers, found, is_public=is_public)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        if scope["method"] == "OPTIONS" and self._is_question(found):
            await _permit(send, found)
            return
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            if HAS_BEGUN in scope:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await _answer(send, 503, "the server is stopping")
        finally:
            self._running.discard(task)

    def stop(self) -> None:
        self._is_stopping = True
        for task in self._running:
            task.cancel()

    def _refusal(
        self, scope: Scope, headers: Headers, found: dict[bytes, bytes], *, is_public: bool
    ) -> tuple[int, str] | None:
        """Status and reason, if the request is refused."""
        method = scope["method"]
        if len(found) != len(headers) and (double := _double(headers)):
            return 400, f"the request has more than one {double} header"
        origin = found.get(b"origin")
        if origin is not None and not self._is_allowed(origin) and not self._is_ours(origin):
            return 403, "pages from there may not call this server; --allow-origin ORIGIN lets those of ORIGIN"
        has_token = is_public or not self._token or self._has_token(found.get(b"authorization", b""))
        if not has_token and not (method == "OPTIONS" and self._is_question(found)):
            return 401, "this server needs its token: send 'Authorization: Bearer TOKEN'"
        host = _PORT.sub("", found.get(b"host", b"").decode("latin-1")).lower()
        if host not in self._names:
            return 421, f"'{host}' is not a name of this server; start it with --allowed-host {host or 'NAME'} if it is"
        media_type = found.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if method == "POST" and media_type != b"application/json" and not self._is_read_only(scope["path"]):
            return 415, "send JSON: 'Content-Type: application/json'"
        return None

    def _is_question(self, found: dict[bytes, bytes]) -> bool:
        """Of OPTIONS: whether a browser asks for a page of an allowed origin."""
        is_question = b"access-control-request-method" in found and b"origin" in found
        return is_question and self._is_allowed(found[b"origin"])

    def _has_token(self, given: bytes) -> bool:
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(b" "), self._token)

    def _is_allowed(self, origin: bytes) -> bool:
        """Whether pages from there may call this server from a browser."""
        return origin in self._origins or b"*" in self._origins

    def _is_ours(self, origin: bytes) -> bool:
        try:
            place = urlsplit(origin.decode("latin-1")).netloc
        except ValueError:
            return False
        return _PORT.sub("", place).lower() in self._names


def _double(headers: Headers) -> str:
    names = [name for name, _ in headers]
    return next((name.decode() for name in _SINGLE if names.count(name) > 1), "")


def _sharing(origin: bytes, send: Send) -> Send:
    """Lets a page of that origin read the answer."""
    shared = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    ]

    async def sharing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *shared]}
        await send(message)

    return sharing


async def _permit(send: Send, found: dict[bytes, bytes]) -> None:
    """The answer to a browser that asks whether a page may send a request."""
    wanted = found.get(b"access-control-request-headers", b"").decode("latin-1").lower().split(",")
    names = (name.strip() for name in wanted)
    permitted = [name for name in names if name in _REQUEST_HEADERS or re.fullmatch(r"mcp-[a-z0-9_-]+", name)]
    headers = [
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", ", ".join(permitted).encode("latin-1")),
        (b"access-control-max-age", _MAX_AGE),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _answer(send: Send, status: int, reason: str) -> None:
    body = dumps({"error": reason})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
