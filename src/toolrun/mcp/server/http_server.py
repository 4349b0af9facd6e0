"""MCP over streamable HTTP, both eras, at one address and the path /mcp.

A request passes the limits of its connection, the guard, the fast path, and then the SDK.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from typing import Final, Protocol, cast

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from toolrun.mcp.server.fast_path import App, FastPath
from toolrun.mcp.server.http_address import PATH, Address
from toolrun.mcp.server.http_connection import Connection, most_connections, sweep
from toolrun.mcp.server.http_guard import Guard
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.trust.approvals import Approvals

MAX_BODY: Final = 16 * 1024 * 1024
_BACKLOG: Final = 256
"""Connections that the kernel keeps for us. asyncio tries to accept as many in a row, and logs each that fails."""


class Extension(Protocol):
    """What else the server answers, behind the same guard."""

    public_paths: frozenset[str]
    """Those that can be read without the token."""

    def is_read_only(self, path: str) -> bool:
        """Whether it answers every POST to this path with 405."""

    def before(self, app: App) -> App:
        """An application that answers the paths of the extension, and passes all others on."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """What the extension does while the server runs."""


async def serve_http(
    server: McpServer, address: Address, listening: socket.socket, extension: Extension | None = None
) -> None:
    """Serve until cancelled. Then streams are closed, and calls that still run are given up."""
    guard, settings = http_app(server, address, extension), server.settings
    protocol = partial(Connection, settings, most_connections(settings))
    http = _Http(
        uvicorn.Config(
            guard,
            http=cast(type[asyncio.Protocol], protocol),
            timeout_keep_alive=max(1, round(settings.idle_timeout)),
            backlog=_BACKLOG,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
        )
    )
    serving = asyncio.create_task(http.serve(sockets=[listening]))
    sweeping = asyncio.create_task(sweep(http.server_state.connections, settings))
    try:
        async with (
            server.announcing(),
            server.sdk.session_manager.run(),
            nullcontext() if extension is None else extension.running(),
        ):
            await asyncio.wait([serving])
    finally:
        if isinstance(approver := server.executor.approver, Approvals):
            approver.is_ending = True
        http.should_exit = True
        guard.stop()
        await serving
        sweeping.cancel()
        await asyncio.wait([sweeping])


def http_app(server: McpServer, address: Address, extension: Extension | None = None) -> Guard:
    """The whole ASGI application: the guard, then what the extension adds, then the fast path, then the SDK."""
    if address.token:  # who does not have it, does not get the answers of those who do
        server.principal = f"token {hashlib.sha256(address.token.encode()).hexdigest()}"
    app = server.sdk.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has checked
    )
    fast_path = FastPath(app, server, PATH, MAX_BODY)
    if extension is None:
        return Guard(fast_path, address)
    return Guard(extension.before(fast_path), address, extension.public_paths, extension.is_read_only)


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled by the command."""
        yield
