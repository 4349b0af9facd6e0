"""What happens at the deadline: how long after it the answer comes, and how long until the last process is gone.

Three tools that block: in `sleep`, in C code that holds the GIL, and in `sleep` while ignoring SIGTERM. Each runs with
a deadline of 0.5 s and would need 5 s. A runtime that waits for its tool answers seconds late; one that abandons the
tool answers in time and leaves it running.
usage: deadlines.py [rounds]
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles

from harness import Target, print_table, print_targets

from toolrun import Runtime

DEADLINE, BODY = 0.5, 5.0
SCRIPT = '''# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
import os, signal, time


def pid() -> int:
    """Which process."""
    return os.getpid()


def sleeps(seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)


def holds_gil(seconds: float) -> None:
    """Compute in C without letting go of the GIL."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(30_000_000))


def ignores_sigterm(seconds: float) -> None:
    """Sleep, and do not want to be ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(seconds)
'''
Attempt = Callable[[], Awaitable[object]]


BODY_ENDED: list[float] = []


def sleeps() -> None:
    """Sleep."""
    time.sleep(BODY)
    BODY_ENDED.append(time.perf_counter())


async def late(attempt: Attempt) -> float:
    """Milliseconds from the deadline to the answer."""
    start = time.perf_counter()
    with contextlib.suppress(Exception):  # the peers raise what they like
        await attempt()
    return (time.perf_counter() - start - DEADLINE) * 1000


async def gone(process: int) -> float:
    """Milliseconds until a process has ended, from now."""
    start = time.perf_counter()
    while _state(process) != "Z":
        if time.perf_counter() - start > BODY * 1.5:
            return float("inf")
        await asyncio.sleep(0.0005)
    return (time.perf_counter() - start) * 1000


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


async def measure_toolrun(root: Path, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    figures: dict[str, tuple[list[float], list[float]]] = {}
    async with Runtime.open(root / "toolrun.toml") as runtime:
        for name in ("sleeps", "holds_gil", "ignores_sigterm"):
            answers, ends = figures.setdefault(f"toolrun, {name}", ([], []))
            for _ in range(rounds):
                process = (await runtime.executor.execute("blocks.pid")).result
                assert isinstance(process, int)

                async def attempt(name: str = name) -> object:
                    return await runtime.executor.execute(f"blocks.{name}", {"seconds": BODY}, timeout=DEADLINE)

                answers.append(await late(attempt))
                ends.append(await gone(process))
    return figures


async def measure_peers(rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    from fastmcp import FastMCP
    from pydantic_ai import Tool
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.tools import RunContext
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    server = FastMCP("bench")
    server.tool(sleeps, timeout=DEADLINE)
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    toolset = FunctionToolset([Tool(sleeps, timeout=DEADLINE)])
    manager = await ToolManager(toolset).for_run_step(context)
    figures: dict[str, tuple[list[float], list[float]]] = {}
    attempts: dict[str, Attempt] = {
        "FastMCP, sync tool with timeout": lambda: server.call_tool("sleeps", {}),
        "Pydantic AI, sync tool with timeout": lambda: manager.handle_call(ToolCallPart("sleeps", {}, "1")),
    }
    for name, attempt in attempts.items():
        answers, ends = figures.setdefault(name, ([], []))
        for _ in range(rounds):
            BODY_ENDED.clear()
            answers.append(await late(attempt))
            answered = time.perf_counter()
            while not BODY_ENDED:  # noqa: ASYNC110  it ends in a thread
                await asyncio.sleep(0.01)
            ends.append(max(0.0, BODY_ENDED[0] - answered) * 1000)
    answers, ends = figures.setdefault("ProcessPoolExecutor with wait_for", ([], []))
    loop = asyncio.get_running_loop()
    for _ in range(rounds):
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            await loop.run_in_executor(pool, os.getpid)
            answers.append(await late(lambda: asyncio.wait_for(loop.run_in_executor(pool, sleeps), DEADLINE)))
            answered = time.perf_counter()
            await loop.run_in_executor(pool, os.getpid)  # its process is free again when the body has ended
            ends.append((time.perf_counter() - answered) * 1000)
    return figures


async def main(rounds: int) -> bool:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "tools").mkdir()
        (root / "tools" / "blocks.py").write_text(SCRIPT)
        (root / "toolrun.toml").write_text('[workers]\ncache = "cache"\nmax_workers = 1\n')
        ours = await measure_toolrun(root, rounds)
    peers = await measure_peers(3)
    rows = []
    for name, (answers, ends) in (ours | peers).items():
        p99 = quantiles(answers, n=100)[98] if len(answers) > 1 else answers[0]
        rows.append((name, f"{median(answers):.1f}", f"{p99:.1f}", f"{median(ends):.1f}"))
    print_table(
        "A tool that blocks, deadline 0.5 s, body 5 s",
        ("case", "answer after the deadline, p50 ms", "p99 ms", "body ended after the answer, p50 ms"),
        rows,
    )
    worst = max(max(answers) for answers, _ in ours.values())
    ended = max(max(ends) for _, ends in ours.values())
    return print_targets(
        [
            Target("latest answer of toolrun after the deadline, ms", worst, 200),
            Target("latest end of a process after the answer, ms", ended, 500),
        ]
    )


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)))
