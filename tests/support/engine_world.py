"""Engines, each with the same script in its workers: what the contract tests of engines run over.

    world = await open_world("node", tmp_path)
    worker = await world.start(Ears())

`memory` plays the script itself; all others run it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.direct_cluster import DirectCluster
from toolrun.config.model import Config, WorkerSettings
from toolrun.processes.engine import Engine, Exit, ProcessSpec, Worker, WorkerStatus
from toolrun.processes.local import LocalEngine
from toolrun.processes.ray.cluster_client import ClusterSettings
from toolrun.processes.ray.ray_engine import RayEngine
from toolrun.processes.sandbox.policy import ProjectPaths
from toolrun.scripts.on_node import make, recipe
from toolrun.scripts.script_version import make_version
from toolrun.testing import MemoryEngine
from toolrun.testing.memory_engine import MemoryWorker

LIMIT = 30.0
SOURCE = b'''# /// script
# dependencies = []
# ///
import os, subprocess, sys, time

def add(a: int, b: int) -> int:
    """Add."""
    return a + b

def say(text: str) -> str:
    """Write to stderr."""
    print(text, file=sys.stderr)
    return text

def echo(text: str) -> str:
    """Give it back."""
    return text

def flood(megabytes: int) -> int:
    """Write so much to stderr."""
    for _ in range(megabytes * 16):
        print("x" * 65535, file=sys.stderr)
    return megabytes

def hang(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)

def leave(code: int) -> None:
    """End the process."""
    print("the end is near", file=sys.stderr)
    sys.stderr.flush()
    os._exit(code)

def family(path: str) -> int:
    """Start a process of its own session, which goes on."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    return child.pid
'''


class Ears:
    """A listener that remembers everything."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.messages: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.ends: list[Exit] = []
        self.after_end: list[str] = []
        self.times_outdated = 0
        self._rest = b""
        self._news = asyncio.Event()

    def received(self, data: bytes) -> None:
        self._note("received")
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.messages += map(json.loads, lines)
        self._news.set()

    def logged(self, line: str) -> None:
        self._note("logged")
        self.lines.append(line)
        self._news.set()

    def outdated(self) -> None:
        self.times_outdated += 1
        self._news.set()

    def ended(self, exit: Exit) -> None:
        self._note("ended")
        self.ends.append(exit)
        self._news.set()

    def status(self) -> WorkerStatus:
        return WorkerStatus("ready", 0, 0)

    def _note(self, event: str) -> None:
        if self.ends:
            self.after_end.append(event)

    async def message(self, index: int) -> dict[str, Any]:
        await self.until(lambda: len(self.messages) > index)
        return self.messages[index]

    async def end(self) -> Exit:
        await self.until(lambda: self.ends)
        return self.ends[0]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(LIMIT):
            while not condition():
                self._news.clear()
                await self._news.wait()


class _Scripted(MemoryEngine):
    """Plays the script."""

    def start(self, spec: ProcessSpec, listener: Any) -> MemoryWorker:
        worker = _ScriptedWorker(listener)
        self.workers.append(worker)
        worker.be_ready()
        return worker


class _ScriptedWorker(MemoryWorker):
    def send(self, data: bytes, *, coalesce: bool = False) -> bool:
        if self.ended:
            return False
        super().send(data)
        for request in self.requests:
            kwargs = request["kwargs"]
            match request["function"]:
                case "add":
                    self.say(id=request["id"], result=kwargs["a"] + kwargs["b"], error=None)
                case "say":
                    self.listener.logged(kwargs["text"])
                    self.say(id=request["id"], result=kwargs["text"], error=None)
                case "echo":
                    self.say(id=request["id"], result=kwargs["text"], error=None)
                case "leave":
                    self.end(kwargs["code"], "the end is near")
        self.requests.clear()
        return True


class World:
    """One engine, and how to start its worker."""

    def __init__(self, name: str, engine: Engine, folder: Path) -> None:
        self.name = name
        self.engine = engine
        self.has_processes = name != "memory"
        self._folder = folder
        self._numbers = 0
        self.notes: list[str] = []

    async def spec(self, source: bytes = SOURCE) -> ProcessSpec:
        if not self.has_processes:
            return ProcessSpec("subject", Path("python"), (), Path())
        workers = WorkerSettings(cache=str(self._folder / "cache"))
        config = Config(path=None, root=self._folder, workers=workers)
        path = self._folder / "tools" / "subject.py"
        version = make_version(source, None, config)
        options = ("--concurrency", "1")
        wanted = recipe(path, version, options, config, ProjectPaths(self._folder), {}, is_description=False)
        if isinstance(self.engine, RayEngine):
            return await self.engine.place(wanted, self.notes.append)
        return await make(wanted.content, self.notes.append)

    async def start(self, ears: Ears) -> Worker:
        """A worker that is ready."""
        worker = self.engine.start(await self.spec(), ears)
        first = await ears.message(0)
        assert "functions" in first["ready"], first
        ears.messages.clear()
        return worker

    def request(self, function: str, **kwargs: object) -> bytes:
        self._numbers += 1
        body = {"id": self._numbers, "key": "", "function": function, "kwargs": kwargs, "config": {}, "secrets": {}}
        return json.dumps(body).encode() + b"\n"


@asynccontextmanager
async def open_world(name: str, folder: Path, **settings: Any) -> AsyncIterator[World]:
    engine: Engine
    if name == "memory":
        engine = _Scripted()
    elif name == "local":
        engine = LocalEngine()
    elif name == "node":
        engine = RayEngine(ClusterSettings("here:1", **settings), os.environ, DirectCluster)
    else:
        engine = RayEngine(ClusterSettings(os.environ["RAY_ADDRESS"], **settings), os.environ)
    (folder / "tools").mkdir(exist_ok=True)
    try:
        yield World(name, engine, folder)
    finally:
        await engine.close()
