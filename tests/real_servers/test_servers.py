"""What holds for every server: it is listed and called, its refusals are answers, and its death costs one call."""

from __future__ import annotations

import asyncio
import os
import signal

from mcp import Client, StdioServerParameters

from faults.bench import LIMIT, tagged, until
from faults_mcp.bench import Servers, Tools
from real_servers.servers import Example, RealServer, process_of
from toolrun import ErrorKind, SideEffects, ToolResult
from toolrun.mcp.client.mcp_tool import McpTool
from toolrun.mcp.client.session import ListedTool
from toolrun.tools.protocol import schema_of


async def call(tools: Tools, example: Example) -> ToolResult:
    return await tools.call(example.tool, **example.arguments)


def tools_of(tools: Tools, server: str) -> dict[str, McpTool]:
    found = tools.runtime.manager.by_name.items()
    return {name: tool for name, tool in found if isinstance(tool, McpTool) and tool.supervisor.name == server}


async def works(tools: Tools, example: Example) -> None:
    result = await call(tools, example)
    assert result.success, (result.error, result.detail)
    assert example.words in result.text


async def test_its_tools_are_those_that_the_sdk_lists_and_can_be_called(servers: Servers, server: RealServer) -> None:
    async with Client(StdioServerParameters(**server.settings())) as client, servers.open() as tools:
        expected = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools_of(tools, server.name).keys() == expected.keys()
        for name, tool in tools_of(tools, server.name).items():
            assert tool.description == expected[name].description
            assert schema_of(tool) == expected[name].input_schema
        assert tools.server(server.name).version == server.protocol == client.protocol_version
        await works(tools, server.good)


async def test_what_is_refused_is_told(servers: Servers, server: RealServer) -> None:
    async with servers.open() as tools:
        bad = await call(tools, server.bad)
        assert (bad.error_kind, bad.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
        assert server.bad.words in bad.text

        refused = await call(tools, server.refused)
        assert not refused.success
        assert server.refused.words in refused.text

        unknown = await call(tools, Example(server.good.tool + "s", server.good.arguments))
        assert unknown.error_kind is ErrorKind.UNKNOWN_TOOL
        assert server.good.tool in unknown.text

        # A tool that was listed once, and nobody said that it is gone.
        listed = ListedTool("gone", "Was here.", {"type": "object"})
        tools.runtime.manager.add(McpTool(tools.server(server.name), listed, "gone"))
        gone = await call(tools, Example("gone"))
        assert not gone.success
        assert "gone" in str(gone.error)
        await works(tools, server.good)


async def test_it_is_killed_in_the_middle_of_a_call_and_started_again(servers: Servers, server: RealServer) -> None:
    async with servers.open() as tools, tools.bystander():
        await works(tools, server.good)
        pid = process_of(server.name, tagged(servers.tag))
        server.hold(pid)
        arguments = {**server.long.arguments, "on_progress": server.progressed}
        long = asyncio.create_task(tools.call(server.long.tool, timeout=4 * LIMIT, **arguments))
        try:
            await until(lambda: server.is_held(pid) or long.done(), "the call")
            assert not long.done()
        finally:
            os.kill(pid, signal.SIGKILL)
            result = await long
            server.release()
        assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)
        assert f"'{server.name}' was lost during the call: it was killed by SIGKILL" in str(result.error)

        await works(tools, server.good)
        assert process_of(server.name, tagged(servers.tag)) != pid
