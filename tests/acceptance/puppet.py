"""A project with an MCP server `zwave`, as a real process that does what a test tells it to."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from acceptance.project import Project
from toolrun import Runtime

LOCAL = '''
    from toolrun import tool

    @tool
    def local() -> str:
        """A tool of this project."""
        return "here"
'''
PROGRAM = Path(__file__).parents[1] / "mcp_servers" / "puppet.py"


def add_server(
    project: Project, at_start: str = "", delays: list[float] | None = None, era: str = "legacy", **settings: Any
) -> None:
    """`at_start` is what the server does before it says anything. Without `delays` those that toolrun has by itself."""
    project.write("zwave/at_start.py", at_start)
    table = {"command": sys.executable, "args": [str(PROGRAM), era], "cwd": "zwave", **settings}
    lines = [] if delays is None else ["[mcp]", f"delays = {json.dumps(delays)}"]
    lines += ["[servers.zwave]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    project.write("toolrun.toml", "\n".join([*lines, ""]))
    project.write("tools/local.py", LOCAL)


def starts(project: Project) -> int:
    """How often the server was started."""
    path = project.root / "zwave" / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


async def rubbish_is_told(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    """What a server writes on stdout that is no JSON is in a warning, with the server's name."""
    result = await runtime.executor.execute("run", {"code": "write(b'Connected to mqtt://localhost\\n')"})
    assert result.success
    [warning] = [it.getMessage() for it in caplog.records if it.name == "toolrun.mcp" and it.levelno == logging.WARNING]
    assert "MCP server 'zwave' wrote not JSON" in warning
    assert "'Connected to mqtt://localhost'" in warning


async def call_after_rubbish(runtime: Runtime) -> None:
    """The answer that follows rubbish arrives, and so does that of the next call, from the same process."""
    execute = runtime.executor.execute
    first = await execute("run", {"code": "write(b'Connected to mqtt://localhost\\n')"})
    second = await execute("run", {"code": ""})
    assert first.success
    assert first.result == second.result, "both are answered with the number of the process"
