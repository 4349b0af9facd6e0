"""Names of the OpenTelemetry conventions for generative AI and MCP, and toolrun's own.

Constants of our own: these conventions are in development, and no package has them under stable names
(https://opentelemetry.io/docs/specs/semconv/gen-ai/).
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

MCP_METHOD: Final = "mcp.method.name"
METHODS: Final = frozenset(
    {
        *(
            "initialize",
            "ping",
            "server/discover",
            "logging/setLevel",
            "completion/complete",
            "prompts/list",
            "prompts/get",
        ),
        *("tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list"),
        *("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
    }
)
OTHER: Final = "_OTHER"
"""Any other method: a client may make names up, and each would be a series."""
ERROR_TYPE: Final = "error.type"

SIDE_EFFECTS: Final = "toolrun.side_effects"
REPAIRS: Final = "toolrun.repairs"
"""How many of the arguments were repaired: what was changed is content."""
DROPPED: Final = "toolrun.dropped"
KILLED: Final = "toolrun.killed"
REPLAYED: Final = "toolrun.replayed"
RECORDED_AS: Final = "toolrun.call"
"""The id for `toolrun show`."""
SERVER: Final = "toolrun.server"
"""The MCP server, by its name in the configuration."""

TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
CLIENT_DURATION: Final = "mcp.client.operation.duration"
SERVER_DURATION: Final = "mcp.server.operation.duration"
BOUNDARIES: Final = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds: of the buckets of all durations. A tool may take microseconds."""
