"""Calls the tools of a server through `langchain-mcp-adapters`, and prints what each answers. Run by S3.14.1.

Runs in an environment of its own: the adapters need an older MCP SDK than toolrun.
"""

from __future__ import annotations

import asyncio
import json
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main(command: str, server: str, arguments: str) -> None:
    client = MultiServerMCPClient({"zwave": {"command": command, "args": [server], "transport": "stdio"}})
    answers = {}
    for tool in await client.get_tools():
        try:
            content = await tool.ainvoke(json.loads(arguments))
            answers[tool.name] = content if isinstance(content, str) else content[0]["text"]
        except Exception as error:  # noqa: BLE001  whatever class the adapters make of a refusal
            answers[tool.name] = str(error)
    print(json.dumps(answers))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
