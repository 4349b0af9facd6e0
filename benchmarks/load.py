"""300,000 calls with 10 % faults of nine kinds: none may be lost, doubled, crossed or hung, and nothing may be left.

Six in ten go to a script, on the event loop of their runtime. Beside it, in the same process, two other event loops and
two threads without one share an executor, and the threads call the script too. In the middle the process forks three
times. Each call has a number: the tool notes that it ran, the caller that it has the right answer, an observer that it
ended.
usage: load.py [calls]
"""

import asyncio
import collections
import contextlib
import gc
import itertools
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from harness import Target, print_table, print_targets

from toolrun import ErrorKind, Runtime, ToolExecutor, ToolManager, ToolResult
from toolrun.execution.observer import Observer
from toolrun.json import JSON
from toolrun.processes.watchdog import find_tagged
from toolrun.tools.context import Call

SCRIPT = '''# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
import os, subprocess, sys, time
from pathlib import Path

_ran = os.open(Path(__file__).parents[1] / "ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def load(token: str, fault: str = "") -> str:
    """Give the token back, or fail in some way."""
    os.write(_ran, token.encode() + b"\\n")
    if fault == "raise":
        raise ValueError(token)
    if fault == "exit":
        sys.exit(token)
    if fault == "os_exit":
        os._exit(3)
    if fault == "orphan":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
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
WEIGHTS = {
    "raise": 30,
    "exit": 20,
    "print": 20,
    "nan": 20,
    "flood": 10,
    # What kills a worker is rarer, since each costs a start of Python.
    "os_exit": 2,
    "orphan": 1,
    "hang": 2,
    "cancel": 2,
}
EXPECTED = {
    "raise": ErrorKind.TOOL_ERROR,
    "exit": ErrorKind.TOOL_ERROR,
    "os_exit": ErrorKind.WORKER_LOST,
    "orphan": ErrorKind.WORKER_LOST,
    "hang": ErrorKind.TIMEOUT,
}
"""The others succeed."""
HUNG = 90.0
"""Seconds after which a call is given up, or threads of which none had an answer. The default deadline is 30 s."""
BESIDE = 0.1
"""The part of all calls that each of the four loops and threads beside makes."""
FORKS = 3
WARM_UP = 2000


class Record(Observer):
    """What became of each call, by its number. Counts are bytes, so that nothing grows."""

    def __init__(self, calls: int) -> None:
        self.ran = bytearray(calls)
        self.ended = bytearray(calls)
        self.answered = bytearray(calls)
        self.may_not_run = bytearray(calls)
        """Whether the call may have been given up before its tool began."""
        self.faults: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def run(self, token: str) -> None:
        with self._lock:
            self.ran[int(token.removeprefix("call "))] += 1

    def call_finished(self, call: Call, result: ToolResult) -> None:
        number = call.id.removeprefix("call ")
        if number != call.id:
            self.ended[int(number)] += 1

    def answer(self, number: int, fault: str, result: ToolResult | None) -> None:
        """`result` is None for a call that was cancelled."""
        with self._lock:
            self.answered[number] += 1
            self.may_not_run[number] = fault in ("hang", "cancel")
            self.faults[fault or "none"] += 1
            if result is not None and (problem := self._problem(token_of(number), fault, result)):
                self.wrong.append(problem)

    def _problem(self, token: str, fault: str, result: ToolResult) -> str:
        if result.call_id != token:
            return f"{token}: answered as {result.call_id}"
        if result.error_kind is not EXPECTED.get(fault):
            # A worker that dies may take a call of another with it only if it runs several; here it runs one.
            return f"{token} ({fault or 'no fault'}): {result.error_kind} {result.error}"
        if result.success and token not in (result.result, *result.text.split('"')):
            return f"{token}: got the answer of another: {result.text[:80]}"
        return ""


def token_of(number: int) -> str:
    return f"call {number}"


def draw(source: random.Random) -> str:
    return source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0] if source.random() < 0.1 else ""


class Load:
    """Calls of the script, on the loop of its runtime."""

    def __init__(self, runtime: Runtime, record: Record, numbers: Iterator[int]) -> None:
        self._execute = runtime.executor.execute
        self._record = record
        self._numbers = numbers
        self._random = random.Random(1)
        self.hung = 0

    async def work(self) -> None:
        for number in self._numbers:
            fault = draw(self._random)
            try:
                async with asyncio.timeout(HUNG):
                    await self._one(number, fault)
            except TimeoutError:
                self.hung += 1

    async def _one(self, number: int, fault: str) -> None:
        token = token_of(number)
        if fault == "cancel":
            task = asyncio.create_task(self._execute("load", {"token": token, "fault": "hang"}, call_id=token))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            self._record.answer(number, fault, None if task.cancelled() else task.result())
            return
        timeout = 0.3 if fault == "hang" else 30.0
        arguments = {"token": token, "fault": fault}
        result = await self._execute("load", arguments, call_id=token, timeout=timeout)
        self._record.answer(number, fault, result)


class Beside:
    """An executor that is used from everywhere at once: other loops, threads, forked children."""

    def __init__(self, runtime: Runtime, record: Record, parts: list[range], pipes: set[str]) -> None:
        self._runtime = runtime
        self._record = record
        self._parts = parts
        self._pipes = pipes
        self._executor = ToolExecutor(ToolManager([self.in_thread, self.in_task, self.at_once]), observers=[record])
        self._answers = 0
        """Not exact, because four threads count; it only has to grow."""
        self.hung = 0
        self.wrong_children = 0

    def in_thread(self, token: str, fault: str) -> str:
        """Give the token back, or fail."""
        self._record.run(token)
        if fault:
            raise ValueError(token)
        return token

    async def in_task(self, token: str, fault: str) -> str:
        """Give the token back, or fail."""
        await asyncio.sleep(0)
        return self.in_thread(token, fault)

    async def at_once(self, token: str, fault: str) -> str:
        """Give the token back, or fail."""
        return self.in_thread(token, fault)

    def _answer(self, number: int, fault: str, result: ToolResult) -> None:
        self._answers += 1
        self._record.answer(number, fault, result)

    def _call(self, number: int) -> tuple[str, dict[str, JSON], str]:
        fault = "raise" if number % 10 == 0 else ""
        return ("in_thread", "in_task", "at_once")[number % 3], {"token": token_of(number), "fault": fault}, fault

    async def _on_loop(self, numbers: range) -> None:
        for number in numbers:
            name, arguments, fault = self._call(number)
            result = await self._executor.execute(name, arguments, call_id=token_of(number))
            self._answer(number, fault, result)

    def _in_loop(self, numbers: range) -> None:
        asyncio.run(self._on_loop(numbers))

    def _without_loop(self, numbers: range) -> None:
        for number in numbers:
            name, arguments, fault = self._call(number)
            if number % 20 == 1:
                result = self._runtime.executor.execute_sync("load", arguments, call_id=token_of(number))
            else:
                result = self._executor.execute_sync(name, arguments, call_id=token_of(number))
            self._answer(number, fault, result)

    def run(self) -> None:
        """Two loops and two threads to their end, or until none of them has had an answer for long."""
        works = (self._in_loop, self._in_loop, self._without_loop, self._without_loop)
        threads = [
            threading.Thread(target=work, args=(part,), daemon=True)
            for work, part in zip(works, self._parts, strict=True)
        ]
        for thread in threads:
            thread.start()
        forks = itertools.count(1)
        due, calls = next(forks), sum(map(len, self._parts))
        last, since = 0, time.monotonic()
        while running := [thread for thread in threads if thread.is_alive()]:
            running[0].join(0.05)
            if due <= FORKS and self._answers >= calls * due // (FORKS + 1):
                self.wrong_children += not self._is_child_right()
                due = next(forks)
            if self._answers > last:
                last, since = self._answers, time.monotonic()
            elif time.monotonic() - since > HUNG:
                self.hung = len(running)
                return
        self.wrong_children += FORKS + 1 - due

    def _is_child_right(self) -> bool:
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            is_right = False
            try:
                is_right = self._is_right_in_child()
            finally:
                os._exit(0 if is_right else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def _is_right_in_child(self) -> bool:
        """In a forked child: the executor works, the script says whose it is, and no pipe is left."""
        calls = 100
        self._record = Record(2 * calls)
        pipes = open_pipes() - self._pipes
        refusal = self._runtime.executor.execute_sync("load", {"token": "any"})
        for number in range(calls):
            name, arguments, fault = self._call(number)
            result = self._executor.execute_sync(name, arguments, call_id=token_of(number))
            self._answer(number, fault, result)
        self._in_loop(range(calls, 2 * calls))
        is_complete = not self._record.wrong and self._record.answered == b"\x01" * 2 * calls
        return is_complete and not pipes and refusal.error_kind is ErrorKind.UNAVAILABLE

    async def close(self) -> None:
        await self._executor.close()


def open_files() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that this is read with
            file = str(entry.readlink())
            if not file.endswith("-lock"):  # that of a journal, which a process holds until it ends
                found.append(file)
    return found


def open_pipes() -> set[str]:
    return {file for file in open_files() if file.startswith("pipe:")}


def resident() -> float:
    gc.collect()
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def own_processes() -> int:
    """The children of this process, and all that its workers started."""
    tagged = find_tagged(b"TOOLRUN_WORKER=")
    children = [task.joinpath("children").read_text().split() for task in Path("/proc/self/task").iterdir()]
    return sum(map(len, children)) + sum(
        len(pids) for tag, pids in tagged.items() if tag.startswith(f"{os.getpid()}-".encode())
    )


def own_threads() -> int:
    return sum(thread.name.startswith("toolrun") for thread in threading.enumerate())


async def main(calls: int) -> bool:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "tools").mkdir()
        (root / "tools" / "load.py").write_text(SCRIPT)
        (root / "toolrun.toml").write_text('[workers]\ncache = "cache"\nmax_workers = 4\n')
        (root / "temporary").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(root / "temporary")
        await asyncio.to_thread(ToolExecutor(ToolManager()).execute_sync, "any")  # makes the loop that stays
        before, pipes = (len(open_files()), own_threads()), open_pipes()
        record = Record(WARM_UP + calls)
        part = int(calls * BESIDE)
        beside_at = WARM_UP + calls - 4 * part
        async with Runtime.open(root / "toolrun.toml", observers=(record,)) as runtime:
            warm = Load(runtime, record, iter(range(WARM_UP)))
            await asyncio.gather(*(warm.work() for _ in range(16)))
            first, start = resident(), time.perf_counter()
            parts = [range(beside_at + n * part, beside_at + (n + 1) * part) for n in range(4)]
            beside = Beside(runtime, record, parts, pipes)
            load = Load(runtime, record, iter(range(WARM_UP, beside_at)))
            beside_run = asyncio.create_task(asyncio.to_thread(beside.run))
            await asyncio.gather(*(load.work() for _ in range(16)))
            await beside_run
            await asyncio.to_thread(asyncio.run, beside.close())
            seconds, growth = time.perf_counter() - start, resident() - first
        await asyncio.sleep(0)
        left = len(open_files()) - before[0], own_threads() - before[1]
        for token in (root / "ran").read_text().splitlines():
            record.run(token)
        files = [str(path) for path in (root / "temporary").rglob("*")]
    print_table("Calls by fault", ("fault", "answered"), sorted(record.faults.items()))
    print(f"\n{calls:,} calls in {seconds:.0f} s")
    for problem in (*record.wrong[:10], *files[:10]):
        print("wrong:", problem)
    did_not_run = sum(not ran and not may for ran, may in zip(record.ran, record.may_not_run, strict=True))
    return print_targets(
        [
            Target("calls without an answer", record.answered.count(0) + record.ended.count(0), 0),
            Target("calls whose tool did not run", did_not_run, 0),
            Target(
                "calls answered or run twice",
                sum(max(it) > 1 for it in zip(record.ran, record.ended, record.answered, strict=True)),
                0,
            ),
            Target("answers that are wrong or crossed", len(record.wrong), 0),
            Target("calls and threads that hung", warm.hung + load.hung + beside.hung, 0),
            Target("forked children that were wrong", beside.wrong_children, 0),
            Target("processes left", own_processes(), 0),
            Target("threads left", left[1], 0),
            Target("file descriptors left", left[0], 0),
            Target("temporary files left", len(files), 0),
            Target("growth of resident memory, MiB", growth, 20),
        ]
    )


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)))
