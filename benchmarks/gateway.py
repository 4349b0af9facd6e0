"""`tools/call` and `tools/list` over HTTP: `toolrun serve` beside the SDK's bare low-level server and FastMCP.

Every server is a process of its own with the same uvicorn; one is loaded at a time, in an order that is shuffled every
round. CPU time is the server's own clock. The requests are those of the 2026-07-28 protocol: one POST each.
(Not called mcp.py: the other benchmarks could not import the SDK then.)
usage: gateway.py [rounds]
"""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from harness import Target, print_table, print_targets

TOOLRUN = str(Path(sys.executable).with_name("toolrun"))
CONNECTIONS = 16
SECONDS = 1.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
}
TOOLRUN_TOOLS = '''
import asyncio
from toolrun import tool

async def echo(payload: str) -> str:
    """Give the text back."""
    return payload

async def pause(payload: str) -> str:
    """Give the text back after a while."""
    await asyncio.sleep(0.5)
    return payload

for number in range(COUNT):
    globals()[f"echo_{number}"] = tool(name=f"echo_{number}")(echo)
pause = tool(pause)
'''
SDK_SERVER = """
import sys
import uvicorn
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA = {"type": "object", "properties": {"payload": {"type": "string"}}, "required": ["payload"]}
TOOLS = [
    Tool(name=f"echo_{number}", description="Give the text back.", input_schema=SCHEMA)
    for number in range(int(sys.argv[2]))
]

async def list_tools(ctx, params):
    return ListToolsResult(tools=TOOLS)

async def call_tool(ctx, params):
    return CallToolResult(content=[TextContent(type="text", text=params.arguments["payload"])])

server = Server(
    "bare", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda name: SCHEMA
)
uvicorn.run(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error", access_log=False)
"""
FASTMCP_SERVER = '''
import sys
import uvicorn
from fastmcp import FastMCP

server = FastMCP("fast")

async def echo(payload: str) -> str:
    """Give the text back."""
    return payload

for number in range(int(sys.argv[2])):
    server.tool(echo, name=f"echo_{number}")
uvicorn.run(server.http_app(), port=int(sys.argv[1]), log_level="error", access_log=False)
'''


@dataclass
class Running:
    """A server, and what was measured of it."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    cpu: list[float] = field(default_factory=list)
    """µs a request."""
    rate: list[float] = field(default_factory=list)
    """Requests a second."""
    behind: int | None = None
    """The process of the server that it passes its calls on to."""

    def clock(self) -> float:
        """CPU seconds of its process, and of the one behind it."""
        return cpu(self.process.pid) + (cpu(self.behind) if self.behind else 0.0)


def cpu(pid: int) -> float:
    """CPU seconds of a process."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def message(method: str, of: str = "", /, **params: Any) -> bytes:
    """A whole HTTP request."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}).encode()
    head = [
        "POST /mcp HTTP/1.1",
        "host: localhost:80",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "mcp-protocol-version: 2026-07-28",
        f"mcp-method: {method}",
        f"content-length: {len(body)}",
        *([f"mcp-name: {of}"] if of else []),
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def call(tool: str, payload: str = "hello") -> bytes:
    return message("tools/call", tool, name=tool, arguments={"payload": payload})


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Send a request and read the body of the answer. Raises RuntimeError unless it is 200 with JSON."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.split(b"\r\n")[0].decode())
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    if not length:
        raise RuntimeError("an answer without a length")
    return await reader.readexactly(int(length))


async def load(port: int, request: bytes, seconds: float, width: int) -> int:
    """How many requests are answered in that time by `width` connections, each with one on its way."""
    end, count = time.perf_counter() + seconds, 0

    async def work() -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            await exchange(reader, writer, request)
            count += 1
        writer.close()

    await asyncio.gather(*(work() for _ in range(width)))
    return count


async def measure(servers: Sequence[Running], rounds: int) -> None:
    request = call("echo_0")
    for server in servers:
        await load(server.port, request, 0.2, CONNECTIONS)
    shuffle = random.Random(1).shuffle
    for _ in range(rounds):
        order = list(servers)
        shuffle(order)
        for server in order:
            cpu, start = server.clock(), time.perf_counter()
            count = await load(server.port, request, SECONDS, CONNECTIONS)
            server.rate.append(count / (time.perf_counter() - start))
            server.cpu.append((server.clock() - cpu) / count * 1e6)


async def list_all(server: Running) -> tuple[int, float, float]:
    """Tools listed, CPU ms of the server, wall ms: all pages, and the best of three after the first."""
    best: list[tuple[float, float]] = []
    total = 0
    for _ in range(4):
        cpu, start, total, cursor = server.clock(), time.perf_counter(), 0, None
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 28)
        while True:
            extra: dict[str, str] = {} if cursor is None else {"cursor": cursor}
            result = orjson.loads(await exchange(reader, writer, message("tools/list", **extra)))["result"]
            total += len(result["tools"])
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        best.append(((server.clock() - cpu) * 1e3, (time.perf_counter() - start) * 1e3))
        writer.close()
    cpu_ms, wall_ms = min(best[1:])
    return total, cpu_ms, wall_ms


async def flood(server: Running, width: int) -> int:
    """Errors among `width` calls that are all on their way at once."""

    async def one() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            answer = json.loads(await exchange(reader, writer, call("pause")))
            writer.close()
            return bool(answer["result"]["content"][0]["text"] == "hello")
        except (OSError, RuntimeError, LookupError, EOFError):
            return False

    return (await asyncio.gather(*(one() for _ in range(width)))).count(False)


@contextmanager
def running(kind: str, tools: int) -> Iterator[Running]:
    """A server of that kind, once it answers."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        if kind == "toolrun":
            (root / "tools").mkdir()
            (root / "toolrun.toml").touch()
            (root / "tools" / "many.py").write_text(TOOLRUN_TOOLS.replace("COUNT", str(tools)))
            command = [TOOLRUN, "serve", "--http", str(port), "--no-token"]
        else:
            program = SDK_SERVER if kind == "bare SDK" else FASTMCP_SERVER
            command = [sys.executable, "-c", program, str(port), str(tools)]
        with started(f"{kind}, {tools:,} tools", command, root, port) as server:
            yield server


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def started(name: str, command: list[str], root: Path, port: int) -> Iterator[Running]:
    """A server, once it answers."""
    with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_answer(process, port)
            yield Running(name, process, port)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_answer(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        try:
            asyncio.run(load(port, call("echo_0"), 0.001, 1))
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"a server ended before it answered: {process.args!r:.200}")


async def call_part(stack: ExitStack, rounds: int) -> list[Target]:
    """Calls of an in-process tool."""
    servers: dict[tuple[str, int], Running] = {}
    for kind in ("toolrun", "bare SDK", "FastMCP"):
        for tools in (1, 10, 100, 1000):
            if (kind, tools) != ("FastMCP", 1):
                servers[kind, tools] = await asyncio.to_thread(stack.enter_context, running(kind, tools))
    await measure(list(servers.values()), rounds)
    rows = [(it.name, median(it.cpu), median(it.rate)) for it in servers.values()]
    print_table("tools/call", ("server", "CPU µs a request", "requests/s"), rows)
    errors = await flood(servers["toolrun", 10], 500)

    def faster(tools: int) -> float:
        pairs = zip(servers["toolrun", tools].rate, servers["FastMCP", tools].rate, strict=True)
        return median(ours / theirs for ours, theirs in pairs)

    def cost(ours: Running, theirs: Running) -> float:
        return median(mine / other for mine, other in zip(ours.cpu, theirs.cpu, strict=True))

    return [
        Target("CPU, × the bare SDK, 1 tool", cost(servers["toolrun", 1], servers["bare SDK", 1]), 1.2),
        Target("CPU with 1,000 tools, × with 1", cost(servers["toolrun", 1000], servers["toolrun", 1]), 1.1),
        Target("requests/s, × FastMCP, 10 tools", faster(10), 3, True),
        Target("requests/s, × FastMCP, 1,000 tools", faster(1000), 100, True),
        Target("errors among 500 calls in flight", errors, 0),
    ]


async def list_part() -> list[Target]:
    """The list of 10,000 tools."""
    rows: list[tuple[str, int, float, float]] = []
    for kind in ("toolrun", "FastMCP"):
        with ExitStack() as stack:
            server = await asyncio.to_thread(stack.enter_context, running(kind, 10_000))
            rows.append((server.name, *await list_all(server)))
    print_table("tools/list, all pages", ("server", "tools", "CPU ms", "wall ms"), rows)
    assert rows[0][1] >= rows[1][1] == 10_000
    return [Target("tools/list of 10,000 tools, × FastMCP", rows[0][3] / rows[1][3], 0.1)]


async def main(rounds: int) -> bool:
    with ExitStack() as stack:
        targets = await call_part(stack, rounds)
    return print_targets([*targets, *await list_part()])


if __name__ == "__main__":
    os.environ.pop("TOOLRUN_CONFIG", None)
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)))
