"""A runtime served over HTTP beside the program that uses it: MCP, the API and the web console on one port."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolrun.mcp.server.http_address import listen, read_address
from toolrun.mcp.server.http_server import serve_http
from toolrun.runtime import Runtime
from toolrun.server.api import HttpApi
from toolrun.server.from_runtime import mcp_server


@asynccontextmanager
async def serving(runtime: Runtime, http: str = "0", *, token: str | None = None) -> AsyncIterator[str]:
    """Serve the runtime until the block ends. Yields the address of the console, with the token behind '#token='.

    `http` is what `toolrun serve --http` takes: [HOST:]PORT, where port 0 stands for any free one. Without `token` one
    is made for this block; an empty one lets every user of this machine call the tools. Raises ConfigError for an
    address that cannot be used.
    """
    address = read_address(http, secrets.token_urlsafe(16) if token is None else token)
    with listen(address) as listening:
        server = asyncio.create_task(serve_http(mcp_server(runtime), address, listening, HttpApi(runtime)))
        try:
            page = address.page(listening.getsockname()[1])
            yield f"{page}#token={address.token}" if address.token else page
        finally:
            server.cancel()
            await asyncio.wait([server])
