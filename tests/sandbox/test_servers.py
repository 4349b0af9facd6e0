"""A stdio server can be given the walls of scripts: real processes, and the same server with and without them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from toolrun import Runtime, ToolResult

SERVER = '''
    """Reads, writes and connects for whoever asks. Speaks just enough of MCP."""
    import json, os, socket, subprocess, sys

    def act(what, path):
        if what == "read":
            return open(path).read()
        if what == "write":
            return str(open(path, "w").write("x"))
        if what == "run":
            return subprocess.run([path], capture_output=True, text=True, check=True).stdout
        if what == "connect":
            return str(socket.create_connection(("127.0.0.1", int(path)), 5))
        if what == "env":
            return os.environ.get(path, "")
        return str(os.getpid())

    TOOL = {"name": "act", "description": "Act.", "inputSchema": {"type": "object", "properties": {
        "what": {"type": "string"}, "path": {"type": "string"}}}}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        method = message["method"]
        if method == "initialize":
            answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                "serverInfo": {"name": "actor", "version": "1"}}
        elif method == "tools/list":
            answer["result"] = {"tools": [TOOL]}
        elif method == "tools/call":
            try:
                text, failed = act(**message["params"]["arguments"]), False
            except Exception as error:
                text, failed = repr(error), True
            answer["result"] = {"content": [{"type": "text", "text": text}], "isError": failed}
        else:
            answer["error"] = {"code": -32601, "message": "no"}
        print(json.dumps(answer), flush=True)
'''


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A file that belongs to somebody else than the project."""
    path = tmp_path / "elsewhere" / "key"
    path.parent.mkdir()
    path.write_text("private")
    return path


@asynccontextmanager
async def opened(tmp_path: Path, settings: str) -> AsyncIterator[Runtime]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "server.py").write_text(dedent(SERVER))
    lines = [
        f'workers.cache = "{tmp_path / "cache"}"',
        "[servers.actor]",
        f"command = {json.dumps(sys.executable)}",
        'args = ["server.py"]',
        dedent(settings),
    ]
    (project / "toolrun.toml").write_text("\n".join(lines))
    async with Runtime.open(project / "toolrun.toml") as runtime:
        await runtime.ready()
        yield runtime


async def act(runtime: Runtime, what: str, path: object = "") -> ToolResult:
    return await runtime.executor.execute("act", {"what": what, "path": str(path)})


async def test_a_server_without_permissions_is_started_as_it_is(tmp_path: Path, elsewhere: Path) -> None:
    async with opened(tmp_path, "") as runtime:
        assert (await act(runtime, "read", elsewhere)).result == "private"


async def test_a_server_with_permissions_reads_and_writes_its_project_and_what_it_is_granted(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRANTED", "yes")
    monkeypatch.setenv("NOT_GRANTED", "no")
    other = tmp_path / "other"
    other.write_text("also private")
    async with opened(tmp_path, f'permissions = {{ read = ["{elsewhere}"], env = ["GRANTED"] }}') as runtime:
        assert (await act(runtime, "read", elsewhere)).result == "private"
        refused = await act(runtime, "read", other)
        assert not refused.success
        assert "Error" in str(refused.error)
        assert not (await act(runtime, "write", elsewhere)).success
        assert (await act(runtime, "write", tmp_path / "project" / "out")).success
        assert (tmp_path / "project" / "out").read_text() == "x"
        assert (await act(runtime, "pid")).result == "2", "it sees its own processes alone"
        assert (await act(runtime, "env", "GRANTED")).result == "yes"
        assert not (await act(runtime, "env", "NOT_GRANTED")).result
        assert (await act(runtime, "read", elsewhere)).result == "private"


async def test_a_strict_server_has_no_network_and_runs_nothing_but_itself(tmp_path: Path, unused_port: int) -> None:
    async with opened(tmp_path, 'sandbox = "strict"') as runtime:
        assert "Permission" in str((await act(runtime, "connect", unused_port)).error)
        assert "Permission" in str((await act(runtime, "run", "/usr/bin/id")).error)
        assert not (await act(runtime, "write", tmp_path / "project" / "out")).success
    async with opened(tmp_path, 'sandbox = "strict"\npermissions = { net = true, run = ["id"] }') as runtime:
        assert "refused" in str((await act(runtime, "connect", unused_port)).error), "there is a network, and no server"
        assert "uid=" in str((await act(runtime, "run", "/usr/bin/id")).result)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
