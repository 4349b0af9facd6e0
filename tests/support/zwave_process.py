"""The Z-Wave server of examples/home as a process, with the client of the MCP SDK at its other end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from support.brokers import HOME, LIMIT
from support.serving import text_of

SERVER = HOME / "zwave_mcp_server.py"


@dataclass
class Zwave:
    """The server, as a client sees it."""

    client: Client
    log: Path

    async def call(self, tool: str, **arguments: object) -> str:
        """The text of a good answer."""
        result = await self.client.call_tool(tool, arguments)
        text = text_of(result)
        assert not result.is_error, text
        return text

    async def fail(self, tool: str, **arguments: object) -> str:
        """The text of an error."""
        result = await self.client.call_tool(tool, arguments)
        text = text_of(result)
        assert result.is_error, text
        return text

    async def data(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The data of a good answer."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        found: dict[str, Any] = result.structured_content
        return found


@asynccontextmanager
async def open_zwave(
    url: str, log: Path, *, command: list[str] | None = None, mode: str = "auto", **settings: str
) -> AsyncIterator[Zwave]:
    """Start the server, on the interpreter of the tests or by another command, and connect to it."""
    program, *arguments = command or [sys.executable, str(SERVER)]
    environment = {**os.environ, "MQTT_URL": url, "ZWAVE_REPORT_TIMEOUT": "20", **settings}
    parameters = StdioServerParameters(command=program, args=arguments, env=environment)
    with log.open("w") as errors:
        async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
            yield Zwave(client, log)


async def eventually(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something is so."""
    try:
        async with asyncio.timeout(LIMIT):
            while not await is_so():  # noqa: ASYNC110 - what is waited for is in another process
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it never came to this: {what}") from None
