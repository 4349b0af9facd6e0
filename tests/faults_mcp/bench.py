"""MCP servers that do what a test tells them to, looked after by the real `Runtime`, each in a process of its own.

What every fault has in common is checked here: a call of another server is under way while it happens and comes to its
own end, every call has exactly one answer, and afterwards the same server works again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from faults.bench import LIMIT, TAG, Recorder, until
from toolrun import Runtime, ToolResult
from toolrun.mcp.client.supervisor import Supervisor
from toolrun.tools.context import Progress

SERVERS = Path(__file__).parents[1] / "mcp_servers"
QUICK = {"delays": [0, 0.01, 0.02], "longest_delay": 0.05, "grace": 0.5}


class Servers:
    """Servers on disk, and the configuration that names them."""

    def __init__(self, root: Path, tag: str) -> None:
        self.root = root
        self.tag = tag
        self._sections: dict[str, dict[str, Any]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self.trust: dict[str, Any] = {}
        """The section [trust]."""
        self.more = ""
        """Further sections, as TOML."""
        self.add("bystander")

    def add(self, name: str, era: str = "legacy", **settings: Any) -> Path:
        """A puppet (`mcp_servers/puppet.py`). Returns its directory."""
        directory = self.root / name
        directory.mkdir(exist_ok=True)
        program = {"command": sys.executable, "args": [str(SERVERS / "puppet.py"), era], "cwd": name}
        self.put(name, **program | settings)
        return directory

    def put(self, name: str, **settings: Any) -> None:
        if "command" in settings:
            settings["env"] = {**settings.get("env", {}), TAG: self.tag}
        self._sections[name] = settings

    def settings(self, tool: str, **settings: Any) -> None:
        """The section [tool.NAME]."""
        self._settings[tool] = settings

    def at_start(self, name: str, code: str) -> None:
        """What a server does from now on before it says anything."""
        (self.root / name / "at_start.py").write_text(dedent(code))

    def lists(self, name: str, *tools: Any) -> None:
        """What a server lists besides its own tools."""
        part = self.root / name / "tools.part"
        part.write_text(json.dumps(tools))
        part.replace(self.root / name / "tools.json")

    def starts(self, name: str = "subject") -> list[int]:
        path = self.root / name / "starts"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def received(self, name: str = "subject") -> list[dict[str, Any]]:
        """The messages that a server has got."""
        path = self.root / name / "received"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def methods(self, name: str = "subject") -> list[str]:
        return [str(message.get("method")) for message in self.received(name)]

    def configure(self, **mcp: Any) -> Path:
        lines = [
            "[workers]",
            'cache = "cache"',
            "[mcp]",
            *(f"{key} = {json.dumps(value)}" for key, value in (QUICK | mcp).items()),
            "[trust]",
            *(f"{key} = {json.dumps(value)}" for key, value in self.trust.items()),
        ]
        for name, settings in self._sections.items():
            lines += [f"[servers.{name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items())]
        for name, settings in self._settings.items():
            lines += [f'[tool."{name}"]', *(f"{key} = {_toml(value)}" for key, value in settings.items())]
        path = self.root / "toolrun.toml"
        path.write_text("\n".join([*lines, self.more, ""]))
        return path

    @asynccontextmanager
    async def open(self, *, asks: bool = False, **mcp: Any) -> AsyncIterator[Tools]:
        recorder = Recorder()
        async with Runtime.open(self.configure(**mcp), observers=(recorder,), asks=asks) as runtime:
            async with asyncio.timeout(LIMIT):
                await runtime.ready()
            yield Tools(runtime, self)
        recorder.check()


class Tools:
    """An open project."""

    def __init__(self, runtime: Runtime, servers: Servers) -> None:
        self.runtime = runtime
        self.servers = servers

    def server(self, name: str = "subject") -> Supervisor:
        [found] = [it for it in self.runtime.servers if it.name == name]
        return found

    async def call(self, tool: str, *, timeout: float = LIMIT, **arguments: Any) -> ToolResult:
        on_progress: Callable[[Progress], None] | None = arguments.pop("on_progress", None)
        return await self.runtime.executor.execute(tool, arguments, timeout=timeout, on_progress=on_progress)

    async def run(self, code: str = "", tool: str = "subject__run", **more: Any) -> ToolResult:
        """Have a server run some code; without any it answers with the number of its process."""
        return await self.call(tool, code=dedent(code), **more)

    async def works(self, tool: str = "subject__run") -> int:
        """That a call succeeds; the number of the process that answered it."""
        result = await self.run(tool=tool)
        assert result.success, (result.error, result.detail)
        return int(str(result.result))

    @asynccontextmanager
    async def bystander(self) -> AsyncIterator[None]:
        """A call of another server that is under way all the time, and must not notice anything."""
        gate, value, under_way = self.servers.root / secrets.token_hex(4), secrets.token_hex(4), asyncio.Event()
        name = next(it for it in ("bystander__wait_for", "wait_for") if it in self.runtime.manager)
        async with asyncio.TaskGroup() as group:
            told = lambda _: under_way.set()  # noqa: E731
            call = group.create_task(self.call(name, path=str(gate), value=value, timeout=4 * LIMIT, on_progress=told))
            try:
                async with asyncio.timeout(LIMIT):
                    await under_way.wait()
                yield
            finally:
                gate.touch()
        assert (call.result().result, call.result().error) == (value, None), "a call of another server was harmed"
        assert len(self.servers.starts("bystander")) == 1, "another server was started again"

    async def fault(self, code: str, tool: str = "subject__run", **more: Any) -> ToolResult:
        """The answer to a call that fails while another server is at work."""
        async with self.bystander():
            result = await self.run(code, tool, **more)
        assert not result.success
        return result

    async def has(self, tool: str) -> None:
        await until(lambda: tool in self.runtime.manager, f"the tool {tool}")

    async def lacks(self, tool: str) -> None:
        await until(lambda: tool not in self.runtime.manager, f"the end of the tool {tool}")


class Web:
    """A server over HTTP (`mcp_servers/web.py`), started by the test and not by toolrun."""

    def __init__(self, root: Path, unknown: int = 404) -> None:
        self.root = root / "web"
        self.root.mkdir(exist_ok=True)
        self._unknown = str(unknown)
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @contextmanager
    def running(self) -> Iterator[Web]:
        try:
            self.start()
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        command = [sys.executable, str(SERVERS / "web.py"), str(self.port), self._unknown]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=self.root, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def received(self) -> list[dict[str, Any]]:
        path = self.root / "received"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)
