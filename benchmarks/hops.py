"""How much of our own code one warm call runs through: Python frames and modules of the package, on this side.

A frame is a Python function that was entered: a coroutine counts once, however often it is resumed; a generator
expression counts; a comprehension does not, because Python 3.12 and later run it in the frame of its function. The
figures are the same on every machine. Now and then a call does a little more (a script is checked for edits), so the
shortest of several calls counts. A call that is recorded takes its frames in the journal's thread, too, so
it has a row of its own. Needs no peers.
usage: hops.py [--list]    --list also names the frames
"""

import asyncio
import json
import logging
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from harness import Target, print_table, print_targets

import toolrun
from toolrun import Runtime, ToolExecutor, ToolManager, tool

PACKAGE = str(Path(toolrun.__file__).parent) + "/"
COMMAND = str(Path(sys.executable).with_name("toolrun"))
INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
WARM_UP, REPEATS = 5, 9
ARGUMENTS = {"a": 1, "b": 2}
SCRIPT = '''# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
'''
TOOLS = '''from toolrun import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
'''
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
}
TARGETS = {"script worker": 30, "MCP stdio": 32, "HTTP in": 22}
"""The paths that have one, with the most frames that a call may take."""

Call = Callable[[], Awaitable[Callable[[], object]]]
"""Makes a call, and returns what reads its answer: that is no part of the call."""


@dataclass
class Trace:
    """The frames of one call, in order, those of the tool itself left out: it is in no file of the package."""

    frames: list[FrameType] = field(default_factory=list)
    """Kept, so that a frame which is entered again is known: it is the same object."""

    def names(self) -> list[str]:
        return [f"{_module(frame)}.{frame.f_code.co_qualname}" for frame in self.frames]

    def modules(self) -> set[str]:
        return {_module(frame) for frame in self.frames}


class Tracer:
    """Counts frames in this thread, and in all threads that start after it was made."""

    def __init__(self) -> None:
        self._trace: Trace | None = None
        self._known: set[FrameType] = set()
        threading.setprofile(self._event)

    async def trace(self, call: Call) -> Trace:
        trace = Trace()
        self._known.clear()
        self._trace = trace
        sys.setprofile(self._event)
        try:
            answer = await call()
        finally:
            sys.setprofile(None)
            self._trace = None
        assert answer() == "3", answer()
        return trace

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        trace = self._trace
        if trace is None or event != "call" or frame in self._known:
            return
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) and code.co_name not in INLINED:
            self._known.add(frame)
            trace.frames.append(frame)


def _module(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(PACKAGE).removesuffix(".py").replace("/", ".")


@asynccontextmanager
async def in_process() -> AsyncIterator[tuple[Call, Call]]:
    @tool
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @tool
    def add_in_thread(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    executor = ToolExecutor(ToolManager([add, add_in_thread]))
    yield _executing(executor, "add"), _executing(executor, "add_in_thread")
    await executor.close()


@asynccontextmanager
async def project(files: Mapping[str, str], name: str) -> AsyncIterator[Call]:
    """A call of a tool of a project with these files."""
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), files)
        async with Runtime.open(Path(directory, "toolrun.toml")) as runtime:
            await runtime.ready()
            yield _executing(runtime.executor, name)


def write(directory: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _executing(executor: ToolExecutor, name: str) -> Call:
    async def call() -> Callable[[], object]:
        result = await executor.execute(name, ARGUMENTS)
        return lambda: result.text

    return call


@asynccontextmanager
async def http_in() -> AsyncIterator[Call]:
    """A POST to the application that `toolrun serve --http` runs, without a web server around it."""
    from toolrun.mcp.server.http_address import PATH, Address
    from toolrun.mcp.server.http_server import http_app
    from toolrun.mcp.server.mcp_server import McpServer

    @tool
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    manager = ToolManager([add])
    executor = ToolExecutor(manager)

    app = http_app(McpServer(manager, executor), Address("127.0.0.1", 80))
    params = {"name": "add", "arguments": ARGUMENTS, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "host": "localhost:80",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "add",
        "content-length": str(len(body)),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def call() -> Callable[[], object]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": PATH, "root_path": "", "headers": pairs}
        await app(scope, receive, send)
        return lambda: json.loads(sent[-1]["body"])["result"]["content"][0]["text"]

    yield call
    await executor.close()


async def trace_path(tracer: Tracer, call: Call) -> Trace:
    for _ in range(WARM_UP):
        await call()
    traces = [await tracer.trace(call) for _ in range(REPEATS)]
    return min(traces, key=lambda it: len(it.frames))


async def main(shows_names: bool) -> bool:
    logging.disable(logging.WARNING)
    tracer = Tracer()
    server = f"[servers.adder]\ncommand = {json.dumps(COMMAND)}\nargs = ['serve']\ncwd = 'server'\n"
    async with AsyncExitStack() as stack:
        inline, threaded = await stack.enter_async_context(in_process())
        off = "[journal]\nenabled = false\n"
        recorded = {"toolrun.toml": '[workers]\ncache = "cache"\n', "tools/add.py": SCRIPT}
        script = {**recorded, "toolrun.toml": f"{off}{recorded['toolrun.toml']}"}
        stdio = {"toolrun.toml": f"{off}{server}", "server/toolrun.toml": "", "server/tools/adder.py": TOOLS}
        calls = {
            "in-process, async": inline,
            "in-process, in a thread": threaded,
            "script worker": await stack.enter_async_context(project(script, "add")),
            "script worker, with its journal": await stack.enter_async_context(project(recorded, "add")),
            "MCP stdio": await stack.enter_async_context(project(stdio, "add")),
            "HTTP in": await stack.enter_async_context(http_in()),
        }
        traces = {name: await trace_path(tracer, call) for name, call in calls.items()}
    rows = [(name, len(it.frames), len(it.modules())) for name, it in traces.items()]
    print_table("Our own code in one warm call", ("path", "frames", "modules"), rows)
    if shows_names:
        for name, trace in traces.items():
            print(f"\n{name}:\n  " + "\n  ".join(trace.names()))
    return print_targets([Target(name, len(traces[name].frames), limit) for name, limit in TARGETS.items()])


if __name__ == "__main__":
    sys.exit(not asyncio.run(main("--list" in sys.argv[1:])))
