"""300,000 calls with 10 % faults of eight kinds: none may be lost, doubled or crossed.

Most are calls of a script, on the event loop of their runtime. Beside it, in the same process, one executor is used by
two other event loops and by threads without one, and by a process that is forked in the middle.
usage: load.py [calls]
"""

import asyncio
import collections
import gc
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness import Target, print_table, print_targets

from toolrun import ErrorKind, Runtime, ToolExecutor, ToolManager, ToolResult
from toolrun.json import JSON

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


class Beside:
    """An executor that is used from everywhere at once: other loops, threads, a forked child."""

    def __init__(self, calls: int) -> None:
        self._executor = ToolExecutor(ToolManager([in_thread, in_task, at_once]))
        self._calls = calls
        self.answered = 0
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def check(self, number: int, name: str, result: ToolResult) -> None:
        token = f"beside-{threading.get_ident()}-{number}"
        fault = number % 10 == 0
        is_right = result.call_id == token and result.success is not fault
        if not fault:
            is_right = is_right and result.result == token
        with self._lock:
            self.answered += 1
            if not is_right:
                self.wrong.append(f"{token} ({name}): {result}")

    def arguments(self, number: int) -> tuple[str, dict[str, JSON], str]:
        token = f"beside-{threading.get_ident()}-{number}"
        return NAMES[number % 3], {"token": token, "fault": number % 10 == 0}, token

    async def on_loop(self) -> None:
        for number in range(self._calls):
            name, arguments, token = self.arguments(number)
            self.check(number, name, await self._executor.execute(name, arguments, call_id=token))

    def without_loop(self) -> None:
        for number in range(self._calls):
            name, arguments, token = self.arguments(number)
            self.check(number, name, self._executor.execute_sync(name, arguments, call_id=token))

    def run(self) -> bool:
        """Two loops, two threads and a child, to their end. Whether the child had its answers."""

        def loop() -> None:
            asyncio.run(self.on_loop())

        threads = [threading.Thread(target=it) for it in (loop, loop, self.without_loop, self.without_loop)]
        for thread in threads:
            thread.start()
        child = os.fork()
        if child == 0:
            self.answered, self.wrong, self._lock = 0, [], threading.Lock()
            self._calls = 100
            signal.alarm(60)
            self.without_loop()
            loop()
            os._exit(self.answered == 200 and not self.wrong)
        for thread in threads:
            thread.join()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

    def close(self) -> None:
        asyncio.run(self._executor.close())


def in_thread(token: str, fault: bool) -> str:
    """Give the token back, or fail."""
    if fault:
        raise ValueError(token)
    return token


async def in_task(token: str, fault: bool) -> str:
    """Give the token back, or fail."""
    await asyncio.sleep(0)
    return in_thread(token, fault)


async def at_once(token: str, fault: bool) -> str:
    """Give the token back, or fail."""
    return in_thread(token, fault)


NAMES = ("in_thread", "in_task", "at_once")
BESIDE = 0.1
"""The part of all calls that each of the four loops and threads beside makes."""


async def main(calls: int) -> bool:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "tools").mkdir()
        (root / "tools" / "load.py").write_text(SCRIPT)
        (root / "toolrun.toml").write_text('[workers]\ncache = "cache"\nmax_workers = 4\n')
        await asyncio.to_thread(ToolExecutor(ToolManager()).execute_sync, "any")  # makes the loop that stays
        before = descriptors()
        async with Runtime.open(root / "toolrun.toml") as runtime:
            warm = Load(runtime, 2000)
            await asyncio.gather(*(warm.work() for _ in range(16)))
            first, start = resident(), time.perf_counter()
            beside = Beside(int(calls * BESIDE))
            in_script = calls - 4 * int(calls * BESIDE)
            load = Load(runtime, in_script)
            beside_run = asyncio.create_task(asyncio.to_thread(beside.run))
            await asyncio.gather(*(load.work() for _ in range(16)))
            is_child_right = await beside_run
            await asyncio.to_thread(beside.close)
            seconds, growth = time.perf_counter() - start, resident() - first
        await asyncio.sleep(0)
        left = descriptors() - before
    print_table("Calls by fault", ("fault", "answered"), sorted(load.answered.items()))
    print(f"\n{calls:,} calls in {seconds:.0f} s")
    wrong = warm.wrong + load.wrong + beside.wrong
    for problem in wrong[:10]:
        print("wrong:", problem)
    answered = sum(load.answered.values()) + beside.answered
    return print_targets(
        [
            Target("calls lost", calls - answered, 0),
            Target("answers that are wrong, doubled or crossed", len(wrong), 0),
            Target("forked child that had no right answers", int(not is_child_right), 0),
            Target("file descriptors left", left, 0),
            Target("growth of resident memory, MiB", growth, 20),
        ]
    )


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)))
