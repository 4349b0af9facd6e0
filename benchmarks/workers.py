"""A call into a worker process: toolrun beside blocking pipes (the limit), a process pool and MCP over stdio.

CPU time is that of both sides together, taken from the clocks of the processes. Of a call that is recorded it includes
the journal's: nobody says what the tool does, so its start is committed before it runs (journal.py has more on that).
OneTool's pool is measured too if the variable ONETOOL_SRC names the directory with its worker_pool.py, and `loguru` and
`uv` are there: it is in no registry.
usage: workers.py [rounds]
"""

import asyncio
import concurrent.futures
import functools
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from harness import Target, print_table, print_targets

from toolrun import Runtime

HEADER = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [{dependencies}]\n{more}# ///\n'
SCRIPT = '''
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def same(text: str) -> str:
    """Give the text back."""
    return text


async def soon(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
'''
PIPE_WORKER = """
import os, sys
try:
    if sys.argv[1] == "orjson":
        import orjson; loads, dumps = orjson.loads, orjson.dumps
    else:
        raise ImportError
except ImportError:
    import json; loads = json.loads; dumps = lambda value: json.dumps(value, separators=(",", ":")).encode()
buffer = b""
while True:
    chunk = os.read(0, 1 << 18)
    if not chunk: break
    *lines, buffer = (buffer + chunk).split(b"\\n")
    for line in lines:
        request = loads(line); kwargs = request["kwargs"]
        result = kwargs["text"] if "text" in kwargs else kwargs["a"] + kwargs["b"]
        data = dumps({"id": request["id"], "result": result, "error": None}) + b"\\n"
        while data: data = data[os.write(1, data):]
"""
MCP_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two integers."
    return a + b
server.run("stdio")
"""
ONETOOL_WORKER = """# /// script
# requires-python = ">=3.11"
# ///
import json, sys
for line in sys.stdin:
    kwargs = json.loads(line)["kwargs"]
    print(json.dumps({"result": kwargs["a"] + kwargs["b"], "error": None}), flush=True)
"""
Call = Callable[[], Awaitable[object]]


def cpu(pids: list[int]) -> float:
    """CPU seconds that this process and others have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


class Pipe:
    """The limit: blocking pipes, one JSON object a line."""

    def __init__(self, library: str) -> None:
        import orjson

        self._loads, self._dumps = orjson.loads, orjson.dumps
        command = [sys.executable, "-c", PIPE_WORKER, library]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._rest = b""

    async def call(self, **kwargs: object) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"id": 1, "function": "add", "kwargs": kwargs, "config": {}, "secrets": {}}
        data = self._dumps(request) + b"\n"
        while data:
            data = data[os.write(self.process.stdin.fileno(), data) :]
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            parts.append(os.read(self.process.stdout.fileno(), 1 << 18))
        return self._loads(b"".join(parts))["result"]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


async def sequential(cases: Mapping[str, tuple[Call, list[int]]], rounds: int, calls: int) -> dict[str, float]:
    """CPU µs for each call, median of interleaved rounds.

    Both sides on one core: waking an idle one costs several times what is to be measured, and differs from run to run.
    """
    figures: dict[str, list[float]] = {name: [] for name in cases}
    with on_one_core([os.getpid(), *(pid for _, pids in cases.values() for pid in pids)]):
        await _sequential(cases, rounds, calls, figures)
    return {name: median(values) for name, values in figures.items()}


async def _sequential(
    cases: Mapping[str, tuple[Call, list[int]]], rounds: int, calls: int, figures: dict[str, list[float]]
) -> None:
    for _ in range(rounds):
        for name, (call, pids) in cases.items():
            start = cpu(pids)
            for _ in range(calls):
                await call()
            figures[name].append((cpu(pids) - start) / calls * 1e6)


@contextmanager
def on_one_core(pids: list[int]) -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    threads = [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    for thread in threads:
        os.sched_setaffinity(thread, {max(cores)})
    yield
    for thread in threads:
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(thread, cores)


async def pipelined(call: Call, count: int, width: int) -> float:
    """Calls per second with `width` in flight."""

    async def work() -> None:
        for _ in range(count // width):
            await call()

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(width)))
    return count / (time.perf_counter() - start)


def write_project(root: Path) -> None:
    (root / "tools").mkdir()
    more = "# [tool.toolrun]\n# concurrency = 64\n"
    for name, dependencies, extra in (
        ("plain", "", ""),
        ("fast", '"orjson"', ""),
        ("wide", "", more),
        ("widefast", '"orjson"', more),
    ):
        (root / "tools" / f"{name}.py").write_text(HEADER.format(dependencies=dependencies, more=extra) + SCRIPT)
    settings = '[workers]\ncache = "cache"\nmax_workers = 1\nmax_concurrency = 64\n'
    (root / "recorded.toml").write_text(settings)
    (root / "toolrun.toml").write_text(f"{settings}[journal]\nenabled = false\n")


def add(a: int, b: int) -> int:
    return a + b


async def mcp_client(stack: Any) -> tuple[Call, int]:
    from mcp import Client, StdioServerParameters

    before = set(_children())
    parameters = StdioServerParameters(command=sys.executable, args=["-c", MCP_SERVER])
    client = await stack.enter_async_context(Client(parameters))
    await client.list_tools()
    [pid] = set(_children()) - before
    return (lambda: client.call_tool("add", {"a": 1, "b": 2})), pid


def _children(pid: int | None = None) -> list[int]:
    pid = pid or os.getpid()
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def onetool(stack: Any, root: Path) -> tuple[Call, list[int]]:
    """A call through OneTool's pool, which blocks, and the processes of its worker."""
    sys.path.insert(0, os.environ["ONETOOL_SRC"])
    import worker_pool  # type: ignore[import-not-found]  # not in any registry

    file = root / "onetool.py"
    file.write_text(ONETOOL_WORKER)
    pool = worker_pool.WorkerPool()
    before = set(_children())
    assert pool.call(file, "add", {"a": 1, "b": 2}) == 3
    stack.callback(pool.shutdown)
    [parent] = set(_children()) - before

    async def call() -> object:
        return pool.call(file, "add", {"a": 1, "b": 2})

    return call, [parent, *_children(parent)]


def cold_start(root: Path, rounds: int) -> tuple[float, float]:
    """Wall ms from the first call to its answer in a fresh process, and of `python -c pass`."""
    program = (
        "import asyncio, time\nfrom toolrun import Runtime\n"
        "async def main():\n"
        f"    async with Runtime.open({str(root / 'toolrun.toml')!r}) as runtime:\n"
        "        await runtime.executor.execute('nothing')\n"
        "        start = time.perf_counter()\n"
        "        result = await runtime.executor.execute('plain.add', {'a': 1, 'b': 2})\n"
        "        assert result.result == 3, result\n"
        "        print((time.perf_counter() - start) * 1000)\n"
        "asyncio.run(main())\n"
    )
    ours, base = [], []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        ours.append(float(done.stdout))
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        base.append((time.perf_counter() - start) * 1000)
    return median(ours), median(base)


async def main(rounds: int) -> bool:
    logging.disable(logging.CRITICAL)
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_project(root)
        runtime = await stack.enter_async_context(Runtime.open(root / "toolrun.toml"))
        recorded = await stack.enter_async_context(Runtime.open(root / "recorded.toml"))
        execute = runtime.executor.execute
        small = {"a": 1, "b": 2}

        async def pid_of(tool: str, owner: Runtime = runtime) -> int:
            result = await owner.executor.execute(tool, small)
            assert result.result == 3, result
            script = next(it for it in owner.scripts if it.name == tool.partition(".")[0])
            info = script.pool.workers[0].describe()
            assert info is not None
            return int(info.place.split()[1])

        pipe, pipe_orjson = Pipe("json"), Pipe("orjson")
        stack.callback(pipe.close)
        stack.callback(pipe_orjson.close)
        mcp_call, mcp_pid = await mcp_client(stack)
        pool = stack.enter_context(concurrent.futures.ProcessPoolExecutor(1))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(pool, add, 1, 2)
        pool_pids = list(pool._processes)  # the only way to know the CPU time of its worker
        cases: dict[str, tuple[Call, list[int]]] = {
            "limit: blocking pipes, json": (lambda: pipe.call(**small), [pipe.process.pid]),
            "limit: blocking pipes, orjson": (lambda: pipe_orjson.call(**small), [pipe_orjson.process.pid]),
            "toolrun, json": (lambda: execute("plain.add", small), [await pid_of("plain.add")]),
            "toolrun, orjson": (lambda: execute("fast.add", small), [await pid_of("fast.add")]),
            "toolrun, json, recorded": (
                lambda: recorded.executor.execute("plain.add", small),
                [await pid_of("plain.add", recorded)],
            ),
            "ProcessPoolExecutor": (lambda: loop.run_in_executor(pool, add, 1, 2), pool_pids),
            "MCP SDK over stdio": (mcp_call, [mcp_pid]),
        }
        if os.environ.get("ONETOOL_SRC"):
            cases["OneTool's pool"] = onetool(stack, root)
        figures = await sequential(cases, rounds, 400)
        print_table("Round trip, one call after the other", ("case", "CPU µs, both sides"), list(figures.items()))

        await pid_of("wide.soon")
        await pid_of("widefast.soon")
        rates = {}
        for name in ("wide.soon", "widefast.soon"):
            call = functools.partial(execute, name, small)
            rates[name] = max([await pipelined(call, 20_000, 64) for _ in range(5)])
        print_table("64 calls in flight on one worker", ("case", "calls/s, best of 5"), list(rates.items()))

        text = "x" * 1_000_000
        big = {
            "limit: blocking pipes, json": (lambda: pipe.call(text=text), [pipe.process.pid]),
            "toolrun, json": (lambda: execute("plain.same", {"text": text}), cases["toolrun, json"][1]),
        }
        payload = await sequential(big, rounds, 10)
        print_table("1 MB there and back", ("case", "CPU µs, both sides"), list(payload.items()))
        ten = await execute("plain.same", {"text": "x" * 10_000_000})
        assert ten.success, ten.error
        assert json.dumps(ten.result)
    ours, base = cold_start_of_a_new_project(rounds)
    print(f"\nFirst call to first answer on a warm environment: {ours:.1f} ms; python -c pass: {base:.1f} ms")
    pipes, pipes_orjson = figures["limit: blocking pipes, json"], figures["limit: blocking pipes, orjson"]
    targets = [
        Target("json, × blocking pipes", figures["toolrun, json"] / pipes, 2),
        Target("orjson, × blocking pipes", figures["toolrun, orjson"] / pipes_orjson, 2),
        Target("faster than MCP over stdio, ×", figures["MCP SDK over stdio"] / figures["toolrun, json"], 15, True),
        Target("calls/s on one worker, json", rates["wide.soon"], 20_000, True),
        Target("calls/s on one worker, orjson", rates["widefast.soon"], 50_000, True),
        Target("1 MB, × blocking pipes", payload["toolrun, json"] / payload["limit: blocking pipes, json"], 1.1),
        Target("cold start, × python -c pass", ours / base, 2),
    ]
    if "OneTool's pool" in figures:
        faster = figures["OneTool's pool"] / figures["toolrun, json"]
        targets.append(Target("faster than OneTool's pool, ×", faster, 2, True))
    return print_targets(targets)


def cold_start_of_a_new_project(rounds: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_project(root)
        cold_start(root, 1)  # makes the environments
        return cold_start(root, rounds)


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)))
