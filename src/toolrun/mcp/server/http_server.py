"""MCP over streamable HTTP, both eras, at one address and the path /mcp.

Who may ask is decided before a request is read: a name by which the server is known (a web page that was made to
resolve to this machine does not know it), a page of the same names if a browser sends it, the token if there is one,
and JSON. Beyond this machine there must be a token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
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
from toolrun.mcp.server.fast_path import App, Exchange, Message, Receive, Scope, Send
from toolrun.mcp.server.mcp_server import McpServer

PATH: Final = "/mcp"
MAX_BODY: Final = 16 * 1024 * 1024
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and who may ask."""

    host: str
    port: int
    token: str = ""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients know this server, besides those that it knows itself."""

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, port: int) -> str:
        """What clients are given; `port` is the one that is listened on."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{port}{PATH}"

    def names(self) -> frozenset[str]:
        """What may stand in a Host header, without the port."""
        own = [f"[{self.host}]" if ":" in self.host else self.host, socket.gethostname()]
        return frozenset(name.lower() for name in (*_LOOPBACK, *own, *self.allowed_hosts))


def read_address(text: str, token: str, allowed_hosts: Iterable[str]) -> Address:
    """`PORT`, `HOST:PORT` or `[::1]:PORT`. Raises ConfigError for what is no address, or needs a token."""
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
    """Raises ConfigError if the address cannot be listened on."""
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
    """Serve until cancelled. Then streams are closed and calls that are under way are given up."""
    app = server.sdk.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has checked
    )
    guard = Guard(Exchange(app, server, PATH, MAX_BODY), address)
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


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command's."""
        yield


class Guard:
    """Refuses requests by what their head says. An ASGI application around another."""

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
        await self._pass_on(scope, receive, send)

    def stop(self) -> None:
        self._is_stopping = True
        for task in self._running:
            task.cancel()

    def _refusal(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Status and reason, if the request is refused."""
        found = dict(headers)
        if self._expected and not hmac.compare_digest(found.get(b"authorization", b""), self._expected):
            return 401, "this server needs its token: send 'Authorization: Bearer TOKEN'"
        host = _name(found.get(b"host", b"").decode("latin-1"))
        if host not in self._names:
            return 421, f"'{host}' is no name of this server; start it with --allowed-host {host or 'NAME'} if it is"
        origin = found.get(b"origin")
        if origin is not None and _name(urlsplit(origin.decode("latin-1")).netloc) not in self._names:
            return 403, "pages from there may not call this server; --allowed-host NAME lets those of NAME"
        if method == "POST" and not _is_json(found.get(b"content-type", b"")):
            return 415, "send JSON: 'Content-Type: application/json'"
        return None

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            if has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await _answer(send, 503, "the server is stopping")
        finally:
            self._running.discard(task)


def _name(host: str) -> str:
    """A Host header without its port."""
    bare, colon, port = host.rpartition(":")
    return (bare if colon and port.isdecimal() else host).lower()


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


async def _answer(send: Send, status: int, reason: str) -> None:
    body = dumps({"error": reason})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
