"""MCP over streamable HTTP, both eras, at one address and the path /mcp.

A request passes the limits of its connection, the guard, the fast path, and then the SDK.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from toolrun.mcp.server.fast_path import FastPath
from toolrun.mcp.server.http_address import PATH, Address
from toolrun.mcp.server.http_connection import Connection, most_connections, sweep
from toolrun.mcp.server.http_guard import Guard
from toolrun.mcp.server.mcp_server import McpServer

MAX_BODY: Final = 16 * 1024 * 1024
Extend: TypeAlias = Callable[[Any], Any]
"""An ASGI application in, one that knows more paths out."""
_BACKLOG: Final = 256
"""Connections that the kernel keeps for us. asyncio tries to accept as many in a row, and logs each that fails."""


async def serve_http(
    server: McpServer, address: Address, listening: socket.socket, extend: Extend | None = None
) -> None:
    """Serve until cancelled. Then streams are closed, and calls that still run are given up.

    `extend` puts an application of its own before MCP, behind the guard.
    """
    guard, settings = http_app(server, address, extend), server.settings
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
        async with server.announcing(), server.sdk.session_manager.run():
            await asyncio.wait([serving])
    finally:
        http.should_exit = True
        guard.stop()
        await serving
        sweeping.cancel()
        await asyncio.wait([sweeping])


def http_app(server: McpServer, address: Address, extend: Extend | None = None) -> Guard:
    """The whole ASGI application: the guard, then the fast path, then what `extend` adds, then the SDK."""
    if address.token:  # who does not have it, does not get the answers of those who do
        server.principal = f"token {hashlib.sha256(address.token.encode()).hexdigest()}"
    app = server.sdk.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has checked
    )
    return Guard(FastPath(app if extend is None else extend(app), server, PATH, MAX_BODY), address)


class _Http(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled by the command."""
        yield
