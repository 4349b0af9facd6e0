"""A call of a tool that an MCP server has, which is reached over stdio: toolrun beside the SDK's client and FastMCP.

The server is the same for all: the SDK's bare low-level one, with so many tools. First each is used as a library in
this process, with several calls on their way; then toolrun and FastMCP's proxy stand between HTTP and the server, and
are processes of their own (`gateway.py` has what is measured there). CPU time is given for both sides. No peer records
its calls, so toolrun is measured without its journal; with it, which is how `serve` is measured, it has its own rows.
usage: proxy.py [rounds]
"""

import asyncio
import gc
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gateway import TOOLRUN, Running, call, cpu, exchange, flood, free_port, measure, started
from harness import Target, print_table, print_targets

from toolrun import Runtime

WIDTH = 16
SECONDS = 0.5
SIZES = (1, 10, 100, 1000)
SERVER = """
import asyncio, os, sys
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA = {"type": "object", "properties": {"payload": {"type": "string"}}, "required": ["payload"]}
NAMES = [f"echo_{number}" for number in range(int(sys.argv[1]))]
TOOLS = [Tool(name=name, description="Give the text back.", input_schema=SCHEMA) for name in [*NAMES, "pause"]]

async def list_tools(ctx, params):
    return ListToolsResult(tools=TOOLS)

async def call_tool(ctx, params):
    text = params.arguments["payload"]
    if params.name == "pause":
        await asyncio.sleep(0.5)
    return CallToolResult(content=[TextContent(type="text", text=str(os.getpid()) if text == "pid" else text)])

async def main():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

asyncio.run(main())
"""
FASTMCP_PROXY = """
import asyncio, sys
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

async def main():
    async with Client(StdioTransport(sys.executable, sys.argv[2:])) as client:
        app = create_proxy(client).http_app()
        config = uvicorn.Config(app, port=int(sys.argv[1]), log_level="error", access_log=False)
        await uvicorn.Server(config).serve()

asyncio.run(main())
"""
Call = Callable[[str, str], Awaitable[str]]
"""Calls a tool with a text, and gives what it answers."""


@dataclass
class Case:
    """One way to call a tool of a server."""

    name: str
    tools: int
    call: Call
    server: int
    """Its process."""
    here: list[float] = field(default_factory=list)
    """CPU µs a call, in this process."""
    there: list[float] = field(default_factory=list)
    """CPU µs a call, of the server."""
    rate: list[float] = field(default_factory=list)
    """Calls a second."""

    @property
    def both(self) -> list[float]:
        return [here + there for here, there in zip(self.here, self.there, strict=True)]

    async def block(self, seconds: float) -> None:
        start, here, there, count = time.perf_counter(), time.process_time(), cpu(self.server), 0
        end = start + seconds

        async def work() -> None:
            nonlocal count
            while time.perf_counter() < end:
                assert await self.call("echo_0", "hello") == "hello"
                count += 1

        await asyncio.gather(*(work() for _ in range(WIDTH)))
        self.rate.append(count / (time.perf_counter() - start))
        self.here.append((time.process_time() - here) / count * 1e6)
        self.there.append((cpu(self.server) - there) / count * 1e6)


def arguments(tools: int) -> list[str]:
    """How Python is told to be the server."""
    return ["-c", SERVER, str(tools)]


def write_project(root: Path, tools: int, is_recorded: bool) -> Path:
    """A configuration with the server in it."""
    path = root / "toolrun.toml"
    server = f"[servers.bare]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(arguments(tools))}\n"
    path.write_text(f"{server}[journal]\nenabled = {json.dumps(is_recorded)}\n")
    return path


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@asynccontextmanager
async def through_toolrun(tools: int, is_recorded: bool = False) -> AsyncIterator[Call]:
    with tempfile.TemporaryDirectory() as directory:
        async with Runtime.open(write_project(Path(directory), tools, is_recorded)) as runtime:
            await runtime.ready()
            execute = runtime.executor.execute

            async def call(tool: str, payload: str) -> str:
                return (await execute(tool, {"payload": payload})).text

            yield call


@asynccontextmanager
async def through_sdk(tools: int) -> AsyncIterator[Call]:
    from mcp import Client, StdioServerParameters

    async with Client(StdioServerParameters(command=sys.executable, args=arguments(tools))) as client:
        await client.list_tools()

        async def call(tool: str, payload: str) -> str:
            result = await client.call_tool(tool, {"payload": payload})
            return text_of(result)

        yield call


@asynccontextmanager
async def through_fastmcp(tools: int) -> AsyncIterator[Call]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(StdioTransport(sys.executable, arguments(tools))) as client:

        async def call(tool: str, payload: str) -> str:
            result = await client.call_tool(tool, {"payload": payload})
            return text_of(result)

        yield call


@asynccontextmanager
async def through_fastmcp_proxy(tools: int) -> AsyncIterator[Call]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    async with Client(StdioTransport(sys.executable, arguments(tools))) as client:
        proxy = create_proxy(client)

        async def call(tool: str, payload: str) -> str:
            result = await proxy.call_tool(tool, {"payload": payload})
            return text_of(result)

        yield call


WAYS: dict[str, Callable[[int], AbstractAsyncContextManager[Call]]] = {
    "toolrun": through_toolrun,
    "toolrun, recorded": partial(through_toolrun, is_recorded=True),
    "SDK client": through_sdk,
    "FastMCP client": through_fastmcp,
    "FastMCP proxy": through_fastmcp_proxy,
}


async def library_part(rounds: int) -> list[Target]:
    cases: dict[tuple[str, int], Case] = {}
    async with AsyncExitStack() as stack:
        for tools in SIZES:
            for name, way in WAYS.items():
                call = await stack.enter_async_context(way(tools))
                cases[name, tools] = Case(name, tools, call, int(await call("echo_0", "pid")))
        await measure_all(list(cases.values()), rounds)
        answers = await asyncio.gather(*(cases["toolrun", 10].call("pause", "hello") for _ in range(500)))
    rows = [
        (it.name, it.tools, median(it.here), median(it.there), median(it.both), median(it.rate))
        for it in cases.values()
    ]
    header = ("client", "tools", "CPU µs here", "CPU µs of the server", "both", "calls/s")
    print_table(f"A call over stdio, {WIDTH} on their way", header, rows)

    def cost(ours: tuple[str, int], theirs: tuple[str, int]) -> float:
        pairs = zip(cases[ours].both, cases[theirs].both, strict=True)
        return median(mine / other for mine, other in pairs)

    return [
        Target("CPU of both sides, × the SDK's client, 1 tool", cost(("toolrun", 1), ("SDK client", 1)), 1.2),
        Target("CPU with 1,000 tools, × with 1", cost(("toolrun", 1000), ("toolrun", 1)), 1.1),
        Target("errors among 500 calls in flight", 500 - answers.count("hello"), 0),
    ]


async def measure_all(cases: Sequence[Case], rounds: int) -> None:
    for case in cases:
        await case.block(0.1)
        case.here, case.there, case.rate = [], [], []
    gc.collect()
    gc.freeze()  # what the peers keep in memory is nothing that a call should pay for
    shuffle = random.Random(1).shuffle
    for _ in range(rounds):
        order = list(cases)
        shuffle(order)
        for case in order:
            await case.block(SECONDS)


@contextmanager
def proxy(kind: str, tools: int) -> Iterator[Running]:
    """HTTP before the server."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        if kind == "toolrun":
            write_project(root, tools, is_recorded=True)
            command = [TOOLRUN, "serve", "--http", str(port), "--no-token"]
        else:
            command = [sys.executable, "-c", FASTMCP_PROXY, str(port), *arguments(tools)]
        with started(f"{kind}, {tools:,} tools", command, root, port) as server:
            server.behind = asyncio.run(ask_pid(port))
            yield server


async def ask_pid(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = json.loads(await exchange(reader, writer, call("echo_0", "pid")))
    writer.close()
    return int(answer["result"]["content"][0]["text"])


async def http_part(rounds: int) -> list[Target]:
    with ExitStack() as stack:
        servers: dict[tuple[str, int], Running] = {}
        for tools in SIZES[1:]:
            for kind in ("toolrun", "FastMCP"):
                servers[kind, tools] = await asyncio.to_thread(stack.enter_context, proxy(kind, tools))
        await measure(list(servers.values()), rounds)
        errors = await flood(servers["toolrun", 10], 500)
    rows = [(it.name, median(it.cpu), median(it.rate)) for it in servers.values()]
    print_table("HTTP to a stdio server", ("proxy", "CPU µs a request, with the server's", "requests/s"), rows)

    def faster(tools: int) -> float:
        pairs = zip(servers["toolrun", tools].rate, servers["FastMCP", tools].rate, strict=True)
        return median(ours / theirs for ours, theirs in pairs)

    return [
        Target("requests/s, × FastMCP's proxy, 10 tools", faster(10), 2, True),
        Target("requests/s, × FastMCP's proxy, 1,000 tools", faster(1000), 100, True),
        Target("errors among 500 requests in flight", errors, 0),
    ]


async def main(rounds: int) -> bool:
    logging.disable(logging.WARNING)  # the peers tell of each call
    return print_targets([*await library_part(rounds), *await http_part(rounds)])


if __name__ == "__main__":
    os.environ.pop("TOOLRUN_CONFIG", None)
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)))
