"""What the conformance suite runs as a client: toolrun with one server, whose tools it calls.

usage: client.py URL; the suite names its scenario in variables.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from toolrun import Runtime
from toolrun.tools.protocol import schema_of

ARGUMENTS: dict[str, dict[str, Any]] = {
    "add_numbers": {"a": 5, "b": 3},
    "valid_tool": {"region": "us-west1"},
    "lookup_user": {"id": "user-1"},
}


async def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "toolrun.toml"
        path.write_text(f"[mcp]\ndiscover_timeout = 10\n[servers.suite]\nurl = {json.dumps(url)}\n")
        async with Runtime.open(path) as runtime:
            await runtime.ready()
            for name, arguments in calls(runtime):
                result = await runtime.executor.execute(name, arguments)
                print(result)


def calls(runtime: Runtime) -> list[tuple[str, dict[str, Any]]]:
    """Those that the scenario asks for, otherwise one of each tool."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if "toolCalls" in context:
        # Without nulls, which the schemas of these tools do not allow: toolrun would not send them.
        return [
            (it["name"], {k: v for k, v in it["arguments"].items() if v is not None}) for it in context["toolCalls"]
        ]
    focal = runtime.manager.get("json_schema_2020_12_tool")
    if focal is not None:
        return [("json_schema_echo", {"schema": schema_of(focal)})]
    return [(tool.name, ARGUMENTS.get(tool.name, {})) for tool in runtime.manager]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
