"""A Z-Wave server whose parameters are in camelCase, made with the SDK. It answers with the arguments that it got.

`zwave` checks its arguments itself and says so in its own words; the schema of `lax_device` takes any name.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

PROPERTIES = {
    "deviceName": {"type": "string"},
    "action": {"type": "string"},
    "level": {"type": "integer"},
    "newParameterName": {"type": "string"},
}
TOOLS = [
    types.Tool(
        name="control_zwave_device",
        description="Control a device.",
        input_schema={"type": "object", "properties": PROPERTIES},
    ),
    types.Tool(
        name="lax_device",
        description="Control a device, with any arguments.",
        input_schema={"type": "object", "properties": PROPERTIES, "additionalProperties": True},
    ),
]
UNKNOWN_DEVICE = "Device 'Switch Nine' is not paired (node table v7)."
NO_DEVICE = "deviceName: Required; received undefined"


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    if params.name == "control_zwave_device" and "deviceName" not in arguments:
        return answer(NO_DEVICE, is_error=True)
    if arguments.get("deviceName") == "Switch Nine":
        return answer(UNKNOWN_DEVICE, is_error=True)
    return answer(json.dumps(arguments))


def answer(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


async def main() -> None:
    server = Server("zwave", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
