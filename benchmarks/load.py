"""100,000 calls of script tools with 10 % faults of eight kinds: none may be lost, doubled or crossed.

usage: load.py [calls]
"""

import asyncio
import collections
import gc
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from harness import Target, print_table, print_targets

from toolrun import ErrorKind, Runtime, ToolResult

SCRIPT = '''# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
import os, sys, time


def work(token: str, fault: str = "") -> str:
    """Give the token back, or fail in some way."""
    if fault == "raise":
        raise ValueError(token)
    if fault == "exit":
        sys.exit(token)
    if fault == "os_exit":
        os._exit(3)
    if fault == "hang":
        time.sleep(60)
    if fault == "print":
        print("x" * 5000); sys.stdout.flush()
    if fault == "flood":
        os.write(2, b"noise\\n" * 20_000)
    if fault == "nan":
        return {"token": token, "value": float("nan")}
    return token
'''
FAULTS = ("raise", "exit", "os_exit", "hang", "print", "flood", "nan", "cancel")
# What kills a worker is rarer, since each costs a start of Python.
WEIGHTS = (30, 20, 2, 2, 20, 10, 20, 2)
EXPECTED = {
    "": None,
    "raise": ErrorKind.TOOL_ERROR,
    "exit": ErrorKind.TOOL_ERROR,
    "os_exit": ErrorKind.WORKER_LOST,
    "hang": ErrorKind.TIMEOUT,
    "print": None,
    "flood": None,
    "nan": None,
}


def resident() -> float:
    gc.collect()
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Load:
    def __init__(self, runtime: Runtime, calls: int) -> None:
        self._runtime = runtime
        self._tokens = iter(range(calls))
        self._random = random.Random(1)
        self.answered: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    async def work(self) -> None:
        for number in self._tokens:
            fault = self._random.choices(FAULTS, WEIGHTS)[0] if self._random.random() < 0.1 else ""
            await self._one(f"token-{number}", fault)

    async def _one(self, token: str, fault: str) -> None:
        execute = self._runtime.executor.execute
        if fault == "cancel":
            task = asyncio.create_task(execute("load", {"token": token, "fault": "hang"}))
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                self.answered["cancel"] += 1
            return
        timeout = 0.3 if fault == "hang" else 30.0
        result = await execute("load", {"token": token, "fault": fault}, call_id=token, timeout=timeout)
        self.answered[fault or "none"] += 1
        if problem := _problem(result, token, fault):
            self.wrong.append(problem)


def _problem(result: ToolResult, token: str, fault: str) -> str:
    if result.call_id != token:
        return f"{token}: answered as {result.call_id}"
    if result.error_kind is not EXPECTED[fault]:
        # A worker that dies may take a call of another with it only if it runs several; here it runs one.
        return f"{token} ({fault or 'no fault'}): {result.error_kind} {result.error}"
    if result.success and token not in result.text:
        return f"{token}: got the answer of another: {result.text[:80]}"
    return ""


async def main(calls: int) -> bool:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "tools").mkdir()
        (root / "tools" / "load.py").write_text(SCRIPT)
        (root / "toolrun.toml").write_text('[workers]\ncache = "cache"\nmax_workers = 4\n')
        before = descriptors()
        async with Runtime.open(root / "toolrun.toml") as runtime:
            warm = Load(runtime, 2000)
            await asyncio.gather(*(warm.work() for _ in range(16)))
            first, start = resident(), time.perf_counter()
            load = Load(runtime, calls)
            await asyncio.gather(*(load.work() for _ in range(16)))
            seconds, growth = time.perf_counter() - start, resident() - first
        await asyncio.sleep(0)
        left = descriptors() - before
    print_table("Calls by fault", ("fault", "answered"), sorted(load.answered.items()))
    print(f"\n{calls:,} calls in {seconds:.0f} s")
    for problem in (warm.wrong + load.wrong)[:10]:
        print("wrong:", problem)
    answered = sum(load.answered.values())
    return print_targets(
        [
            Target("calls lost", calls - answered, 0),
            Target("answers that are wrong, doubled or crossed", len(warm.wrong) + len(load.wrong), 0),
            Target("file descriptors left", left, 0),
            Target("growth of resident memory, MiB", growth, 20),
        ]
    )


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)))
