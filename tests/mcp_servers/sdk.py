"""A server as most are in Python: with the SDK, both eras. Argument: `stdio`, or `http`, which prints its port.

After `http wait` it does not listen before it is given a line.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

BUS = InMemorySubscriptionBus()
NAMES = ["add", "grow", "sleep", "fail"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name=name, description=f"The tool {name}.", input_schema=SCHEMA) for name in NAMES]
    )


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    if params.name == "sleep":
        await ctx.session.report_progress(1, 2, "asleep")
        try:
            await asyncio.sleep(300)
        finally:
            print("woken", file=sys.stderr, flush=True)
    if params.name == "fail":
        return types.CallToolResult(content=[types.TextContent(text="it failed")], is_error=True)
    if params.name == "grow":
        NAMES.append("grown")
        await BUS.publish(ToolsListChanged())
        if ctx.session.protocol_version != "2026-07-28":
            await ctx.session.send_tool_list_changed()
    total = arguments.get("a", 0) + arguments.get("b", 0)
    return types.CallToolResult(content=[types.TextContent(text=str(total))], structured_content={"sum": total})


SERVER = Server(
    "sdk",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(BUS),
)


async def serve_stdio() -> None:
    async with stdio_server() as (read, write):
        options = SERVER.create_initialization_options(NotificationOptions(tools_changed=True))
        await SERVER.run(read, write, options)


async def serve_http() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if sys.argv[2:] != ["wait"]:
            listening.listen()
        print(listening.getsockname()[1], flush=True)
        if sys.argv[2:] == ["wait"]:
            await asyncio.to_thread(sys.stdin.readline)
        config = uvicorn.Config(SERVER.streamable_http_app(), log_level="error")
        await uvicorn.Server(config).serve([listening])


asyncio.run(serve_stdio() if sys.argv[1] == "stdio" else serve_http())
