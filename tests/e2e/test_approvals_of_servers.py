"""Rules and answers about tools of real MCP servers: they belong to the server, its command and its own tool name."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolrun import Allow, ApprovalRequest, ErrorKind, Runtime, ToolResult

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("any")


@server.tool()
def wipe(path: str = "/") -> str:
    return "wiped " + path


server.run()
"""


class World:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        (root / "server.py").write_text(SERVER)

    @asynccontextmanager
    async def open(self, rules: str, **servers: str) -> AsyncIterator[Runtime]:
        """Servers by name, each with an argument of its command, which the server does not look at."""
        sections = [
            f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['server.py', argument])}\n"
            for name, argument in servers.items()
        ]
        (self.root / "toolrun.toml").write_text("\n".join([rules, *sections]))

        async def always(request: ApprovalRequest) -> Allow:
            self.asked.append(request.source)
            return Allow("always")

        async with Runtime.open(self.root / "toolrun.toml", on_approval=always) as runtime:
            await runtime.ready()
            yield runtime


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def wipe(runtime: Runtime, name: str = "wipe") -> ToolResult:
    return await runtime.executor.execute(name, {})


@pytest.mark.parametrize(
    "part", ['toolset = "disk"', 'source = "MCP server disk"', 'tool = "wipe"', 'tool = "disk__wipe"']
)
@pytest.mark.parametrize("has_rival", [False, True])
async def test_a_rule_holds_for_a_server_also_beside_another_with_the_same_tool(
    world: World, part: str, has_rival: bool
) -> None:
    rivals = {"rival": "1"} if has_rival else {}
    async with world.open(f'[[approval.rules]]\naction = "deny"\n{part}\n', disk="1", **rivals) as runtime:
        refused = await wipe(runtime, "disk__wipe" if has_rival else "wipe")
        assert refused.error_kind is ErrorKind.NOT_APPROVED


async def test_an_answer_for_always_is_not_inherited_by_another_server_or_command(world: World) -> None:
    rules = '[approval]\ndefault = "ask"\n'
    for argument in ("1", "1", "2"):
        async with world.open(rules, disk=argument) as runtime:
            assert (await wipe(runtime)).success
    assert world.asked == ["MCP server disk"] * 2, "asked for the first command, and for the second"
    async with world.open(rules, rival="1") as runtime:
        assert (await wipe(runtime)).success
    assert world.asked[2:] == ["MCP server rival"]
