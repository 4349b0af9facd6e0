"""A project whose scripts run on the machines of a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.ray_cluster import RayCluster
from toolrun import Runtime, ToolResult
from toolrun.scripts.pool import Pool

LEASE = 3.0
HALF = {"CPU": 0.5}
HEADER = """# /// script
# dependencies = []
# [tool.toolrun]
# {declared}
# ///
"""
SCRIPT = '''
import os
import subprocess
import sys
import time

from toolrun_sdk import secrets

def call(value: int, seconds: float = 0.0, secret: bool = False, family: bool = False) -> dict:
    """Answer with the value."""
    if family:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "offspring"], start_new_session=True)
    if secret:
        print("using", len(secrets["KEY"]), "letters", file=sys.stderr)
    time.sleep(seconds)
    return {"value": value, "machine": os.readlink("/proc/self/ns/net"), "length": len(secrets.get("KEY", ""))}
'''


class RayProject:
    """Scripts, and a local tool."""

    def __init__(self, root: Path, cluster: RayCluster) -> None:
        self.root = root
        self.cluster = cluster
        self.sections: dict[str, dict[str, Any]] = {}
        self.workers: dict[str, Any] = {"engine": "ray", "cache": str(root / "cache"), "lease": LEASE}
        self.executor: dict[str, Any] = {}
        (root / "tools").mkdir()
        (root / "tools" / "here.py").write_text(
            'from toolrun import tool\n\n@tool\ndef here(value: int) -> int:\n    """Answer."""\n    return value\n'
        )

    def script(self, name: str, declared: str = "concurrency = 1", body: str = SCRIPT, **settings: Any) -> Path:
        path = self.root / "tools" / f"{name}.py"
        path.write_text(HEADER.format(declared=declared) + body.replace("def call(", f"def {name}("))
        self.sections[name] = settings
        return path

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Runtime]:
        lines = ["[secrets]", 'KEY = "canary-5f0c77e1"', "[workers]", *map(_line, self.workers.items())]
        lines += ["[executor]", *map(_line, self.executor.items())]
        for name, settings in self.sections.items():
            lines += [f"[tool.{name}]", *map(_line, settings.items())]
        path = self.root / "toolrun.toml"
        path.write_text("\n".join([*lines, ""]))
        async with Runtime.open(path) as runtime:
            yield runtime


def _line(item: tuple[str, Any]) -> str:
    name, value = item
    if isinstance(value, dict):
        return f"{name} = {{ {', '.join(f'{key} = {it}' for key, it in value.items())} }}"
    return f"{name} = {json.dumps(value)}"


async def warm(runtime: Runtime, tool: str, replicas: int, limit: float = 60.0) -> set[str]:
    """Have so many replicas running; the machines that they are on."""
    together = replicas * pool_of(runtime, tool).limits.concurrency

    async def call_all() -> set[str]:
        calls = [runtime.executor.execute(tool, {"value": 0, "seconds": 0.3}, timeout=60) for _ in range(together)]
        return {fields(it)["machine"] for it in await asyncio.gather(*calls)}

    async with asyncio.timeout(limit):
        while ready(runtime, tool) < replicas:
            await call_all()
        return await call_all()


def pool_of(runtime: Runtime, tool: str) -> Pool:
    [script] = [it for it in runtime.scripts if it.name == tool]
    return script.pool


def ready(runtime: Runtime, tool: str) -> int:
    """How many replicas take calls."""
    return sum(it.state.value == "ready" for it in pool_of(runtime, tool).workers)


async def busy(runtime: Runtime, tool: str, **arguments: Any) -> asyncio.Task[ToolResult]:
    """A call that runs for a minute, in the only replica."""
    await warm(runtime, tool, 1)
    call = asyncio.create_task(runtime.executor.execute(tool, {"value": 1, "seconds": 60, **arguments}, timeout=90))
    await until(lambda: pool_of(runtime, tool).workers[0].load, "it is busy")
    return call


async def until(condition: Callable[[], object], what: str, limit: float = 60.0) -> None:
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110  of other processes
            await asyncio.sleep(0.02)


def fields(result: ToolResult) -> dict[str, Any]:
    assert result.success, (result.error, result.detail)
    assert isinstance(result.result, dict)
    return result.result
