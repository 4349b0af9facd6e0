"""What a runtime offers to MCP clients, over stdio as over HTTP."""

from __future__ import annotations

from toolrun.mcp.client.resource_reader import ResourceReader
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.runtime import Runtime


def mcp_server(runtime: Runtime) -> McpServer:
    reader = ResourceReader(runtime.servers, runtime.config.trust.max_description) if runtime.servers else None
    return McpServer(runtime.manager, runtime.executor, runtime.ready, runtime.config.serve, reader)
