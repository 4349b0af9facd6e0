"""MCP over streamable HTTP, both eras, at one address and the path /mcp.

The guard decides by the head of a request whether it is read at all. The client must use a name of this server (which a
web page whose own name resolves to this machine does not), a browser must send it from a page under such a name, and it
needs the token, if there is one, and JSON. An address beyond this machine requires a token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from toolrun.errors import ConfigError
from toolrun.json import dumps
from toolrun.mcp.server.fast_path import HAS_BEGUN, App, FastPath, Receive, Scope, Send
from toolrun.mcp.server.mcp_server import McpServer

PATH: Final = "/mcp"
MAX_BODY: Final = 16 * 1024 * 1024
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_PORT: Final = re.compile(r":[0-9]+\Z")
"""At the end of a Host header."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and whose requests to accept."""

    host: str
    port: int
    token: str = ""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients use for this server, besides those that it finds out itself."""

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, port: int) -> str:
        """The URL for clients; `port` is the one that the server listens on."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{port}{PATH}"

    def names(self) -> frozenset[str]:
        """The names that a Host header may have, without the port."""
        own = [f"[{self.host}]" if ":" in self.host else self.host, socket.gethostname()]
        return frozenset(name.lower() for name in (*_LOOPBACK, *own, *self.allowed_hosts))


def read_address(text: str, token: str, allowed_hosts: Iterable[str]) -> Address:
    """`PORT`, `HOST:PORT` or `[::1]:PORT`. Raises ConfigError for anything else, and if the token is missing."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--http {text}: this is no address; write --http 8000 or --http HOST:8000")
    address = Address(host.strip("[]") or "127.0.0.1", int(port), token, tuple(allowed_hosts))
    if not address.is_loopback and not token:
        raise ConfigError(
            f"--http {text}: others could call your tools there. Set a token, which clients then send: "
            "TOOLRUN_SERVE_TOKEN=… or --token …; or listen on this machine only: "
            f"--http {address.port}"
        )
    return address


def listen(address: Address) -> socket.socket:
    """Raises ConfigError if the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol named: otherwise asyncio leaves Nagle's algorithm on, and every answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise ConfigError(f"cannot listen on {address.host}:{address.port}: {reason}; choose another port") from None
    return listening


async def serve_http(server: McpServer, address: Address, listening: socket.socket) -> None:
    """Serve until cancelled. Then streams are closed, and calls that still run are given up."""
    guard = http_app(server, address)
    http = _Http(
        uvicorn.Config(guard, lifespan="off", ws="none", log_config=None, access_log=False, server_header=False)
    )
    serving = asyncio.create_task(http.serve(sockets=[listening]))
    try:
        async with server.announcing(), server.sdk.session_manager.run():
            await asyncio.wait([serving])
    finally:
        http.should_exit = True
        guard.stop()
        await serving


def http_app(server: McpServer, address: Address) -> Guard:
    """The whole ASGI application: the guard, then the fast path, then the SDK."""
    app = server.sdk.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has checked
    )
    return Guard(FastPath(app, server, PATH, MAX_BODY), address)


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled by the command."""
        yield


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
