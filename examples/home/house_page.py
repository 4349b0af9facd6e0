"""The web console of the house, served beside it: the calls of the gateway appear on it as they happen."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolrun import Runtime


@asynccontextmanager
async def page_served(runtime: Runtime) -> AsyncIterator[str]:
    """The address of the page, with a token that is for this run only. The server ends with this block."""
    from toolrun.mcp.client.resource_reader import ResourceReader
    from toolrun.mcp.server.http_address import listen, read_address
    from toolrun.mcp.server.http_server import serve_http
    from toolrun.mcp.server.mcp_server import McpServer
    from toolrun.server.api import HttpApi

    address = read_address("0", secrets.token_urlsafe(16))
    reader = ResourceReader(runtime.servers) if runtime.servers else None
    server = McpServer(runtime.manager, runtime.executor, runtime.ready, runtime.config.serve, reader)
    with listen(address) as listening:
        serving = asyncio.create_task(serve_http(server, address, listening, HttpApi(runtime)))
        try:
            yield f"{address.page(listening.getsockname()[1])}#token={address.token}"
        finally:
            serving.cancel()
            await asyncio.wait([serving])
