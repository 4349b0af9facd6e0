"""Decides by the head of a request whether it is read at all.

The client must use a name of this server (which a web page whose own name resolves to this machine does not), a browser
must send it from a page under such a name, and it needs the token, if there is one, and JSON.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from toolrun.json import dumps
from toolrun.mcp.server.fast_path import HAS_BEGUN, App, Receive, Scope, Send
from toolrun.mcp.server.http_address import Address

_PORT: Final = re.compile(r":[0-9]+\Z")
"""At the end of a Host header."""


class Guard:
    """An ASGI application that refuses requests by their head, and passes the others on to another application."""

    def __init__(self, app: App, address: Address) -> None:
        self._app = app
        self._names = address.names()
        self._expected = f"Bearer {address.token}".encode() if address.token else b""
        self._running: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        # A space around a value is no part of it; httptools leaves those at the end.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        refusal = self._refusal(scope["method"], scope["headers"])
        if refusal is not None:
            await _answer(send, *refusal)
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

    def _refusal(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Status and reason, if the request is refused."""
        found = dict(headers)
        if self._expected and not hmac.compare_digest(found.get(b"authorization", b""), self._expected):
            return 401, "this server needs its token: send 'Authorization: Bearer TOKEN'"
        host = _PORT.sub("", found.get(b"host", b"").decode("latin-1")).lower()
        if host not in self._names:
            return 421, f"'{host}' is no name of this server; start it with --allowed-host {host or 'NAME'} if it is"
        origin = found.get(b"origin")
        if origin is not None and not self._is_ours(origin):
            return 403, "pages from there may not call this server; --allowed-host NAME lets those of NAME"
        media_type = found.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if method == "POST" and media_type != b"application/json":
            return 415, "send JSON: 'Content-Type: application/json'"
        return None

    def _is_ours(self, origin: bytes) -> bool:
        return _PORT.sub("", urlsplit(origin.decode("latin-1")).netloc).lower() in self._names


async def _answer(send: Send, status: int, reason: str) -> None:
    body = dumps({"error": reason})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
