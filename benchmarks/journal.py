"""What it costs to remember calls: on the event loop, in calls a second, and while a call waits for its start row.

The cost on the event loop is the CPU time of its thread. While the writer's thread has the interpreter the loop waits,
which takes no CPU time but makes calls slower: the table has the wall time, too. Blocks are long enough to fill the
queue several times, so that the loop pays for the writer at work beside it, and for waiting when there is no room.

usage: journal.py [rounds]
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import Target, print_table, print_targets

from toolrun import ToolExecutor, ToolManager, tool
from toolrun.config.model import ToolSettings
from toolrun.journal.call_record import CallState, Ending, ToolRow
from toolrun.journal.database import begin, open_writer
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.redaction import Redactor

ARGUMENTS = {"a": 1, "b": 2}
SECRETS = ["correct-horse-battery-staple", "hunter2-hunter2"]
BLOCK = 10_000
Operation = Callable[[], Awaitable[object]]


@tool(name="inline")
async def inline_add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(name="suspending")
async def suspending_add(a: int, b: int) -> int:
    """Add."""
    await asyncio.sleep(0)
    return a + b


@tool(name="acting")
async def acting_add(a: int, b: int) -> int:
    """Add."""
    await asyncio.sleep(0)
    return a + b


def executor(journal: Journal | None) -> ToolExecutor:
    settings = {"suspending": ToolSettings(effects="none"), "acting": ToolSettings(effects="once")}
    recorder = None if journal is None else CallRecorder(journal)
    manager = ToolManager([inline_add, suspending_add, acting_add])
    return ToolExecutor(manager, settings=settings, observers=[], recorder=recorder)


def open_journal(directory: Path, name: str, *, is_power_safe: bool = False) -> Journal:
    return Journal(directory / name, redactor=Redactor(SECRETS), is_power_safe=is_power_safe)


async def on_the_loop(tool_name: str, journal: Journal, rounds: int) -> list[float]:
    """Microseconds of a call without and with a journal: CPU time of the loop's thread, then wall time."""
    bare, recorded = executor(None), executor(journal)
    spent: dict[ToolExecutor, list[tuple[float, float]]] = {bare: [], recorded: []}
    for number in range(rounds + 1):
        for one in (bare, recorded) if number % 2 else (recorded, bare):
            gc.collect()
            start, cpu = time.perf_counter_ns(), time.thread_time_ns()
            for _ in range(BLOCK):
                await one.execute(tool_name, ARGUMENTS)
            if number:
                figures = time.thread_time_ns() - cpu, time.perf_counter_ns() - start
                spent[one].append((figures[0] / BLOCK / 1000, figures[1] / BLOCK / 1000))
            await journal.drain()
    await bare.close()
    await recorded.close()
    return [statistics.median(it[kind] for it in spent[one]) for kind in (0, 1) for one in (bare, recorded)]


async def calls_per_second(
    tool_name: str, journal: Journal, count: int, at_once: int, rounds: int = 5
) -> tuple[float, float]:
    """Until the last of them is on disk, and the CPU microseconds of a call in all threads.

    The best round: what else the machine does only makes them slower.
    """
    one = executor(journal)
    rates, spent = [], []
    for _ in range(rounds):
        start, used = time.perf_counter(), time.process_time_ns()
        await repeat(lambda: one.execute(tool_name, ARGUMENTS), count, at_once)
        await journal.drain()
        rates.append(count / (time.perf_counter() - start))
        spent.append((time.process_time_ns() - used) / count / 1000)
    await one.close()
    return max(rates), min(spent)


async def repeat(operation: Operation, count: int, at_once: int) -> None:
    async def work() -> None:
        for _ in range(count // at_once):
            await operation()

    if at_once == 1:
        await work()
        return
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


class BareCommits:
    """One row in a transaction of its own, and nothing else."""

    def __init__(self, path: Path, *, is_power_safe: bool) -> None:
        self.connection = open_writer(path, is_power_safe=is_power_safe)
        self._count = 0

    async def commit(self) -> None:
        self._count += 1
        begin(self.connection)
        self.connection.execute(
            "INSERT INTO call (id, process, tool, at, state, effects, consumer, queued_us, arguments) "
            "VALUES (?, 1, 1, ?, 'started', 'once', '', 10, '{\"a\":1,\"b\":2}')",
            (self._count, time.time_ns() // 1000),
        )
        self.connection.execute("COMMIT")


async def latencies(journal: Journal, count: int, *others: Operation) -> list[list[float]]:
    """Milliseconds, sorted, of calls that wait for their start row, one after the other, and of other operations.

    These come after each call, because what a disk and a processor take changes from one second to the next.
    """
    one = executor(journal)
    operations: list[Operation] = [lambda: one.execute("acting", ARGUMENTS), *others]
    took: list[list[float]] = [[] for _ in operations]
    for _ in range(count):
        for operation, figures in zip(operations, took, strict=True):
            start = time.perf_counter()
            await operation()
            figures.append((time.perf_counter() - start) * 1000)
            await journal.drain()  # the end row is another commit, which the next call need not wait for
    await one.close()
    return [sorted(figures) for figures in took]


def write_for_ever(path: Path) -> None:
    journal = Journal(path)
    row = ToolRow("other", "", "")
    print("ready", flush=True)
    while True:
        record = journal.new_record(row, "{}", "once")
        record.ending = Ending(CallState.DONE, 1, "null")
        journal.add(record)
        journal.flush()


@contextmanager
def another_process(path: Path) -> Iterator[None]:
    command = [sys.executable, __file__, "--write", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            yield
        finally:
            other.kill()


async def main(rounds: int) -> bool:
    targets: list[Target] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TOOLRUN_BENCH_DIR")) as name:
        directory = Path(name)
        journal = open_journal(directory, "process.db")
        rows: list[tuple[object, ...]] = []
        for kind, limit, floor, at_once in (("inline", 3, 50_000, 1), ("suspending", 5, 30_000, 64)):
            bare, recorded, *walls = await on_the_loop(kind, journal, rounds)
            rate, total = await calls_per_second(kind, journal, 64_000, at_once)
            rows.append((f"{kind} tool", bare, recorded, recorded - bare, *walls, total, round(rate)))
            targets.append(Target(f"{kind} tool, µs more on the loop's thread", recorded - bare, limit))
            targets.append(Target(f"{kind} tool, calls/s with drain and redaction", rate, floor, True))
        header = (
            "calls without effects",
            "CPU µs without",
            "with a journal",
            "more",
            "wall µs without",
            "with a journal",
            "CPU µs, all threads",
            "calls/s until on disk",
        )
        print_table("The event loop", header, rows)

        rows = []
        bare_executor = executor(None)
        for durability in ("process", "power"):
            is_power = durability == "power"
            one = open_journal(directory, f"{durability}-waits.db", is_power_safe=is_power)
            alone = BareCommits(directory / f"{durability}-bare.db", is_power_safe=is_power)
            took = await latencies(one, 400, lambda: bare_executor.execute("acting", ARGUMENTS), alone.commit)
            one.close()
            alone.connection.close()
            recorded, unrecorded, commit = map(statistics.median, took)
            waited = recorded - unrecorded
            rows.append((durability, commit, waited, waited / commit))
            if is_power:
                targets.append(Target("waiting for the start row (power), × a bare commit", waited / commit, 1.6))
            else:
                targets.append(Target("waiting for the start row (process), ms over a commit", waited - commit, 0.15))
        print_table("A call that waits for its start row", ("durability", "bare commit ms", "waits ms", "×"), rows)

        commits, count = journal.commits, 64_000
        rate, _ = await calls_per_second("acting", journal, count, 64, rounds=3)
        per_commit = 3 * count / (journal.commits - commits)
        targets.append(Target("64 at once that wait: calls for each commit", per_commit, 30, True))
        targets.append(Target("64 at once that wait: calls/s", rate, 20_000, True))
        journal.close()
        with another_process(directory / "shared.db"):
            journal = open_journal(directory, "shared.db")
            (shared,) = await latencies(journal, 1000)
            journal.close()
        targets.append(Target("p99 ms while another process writes", shared[len(shared) * 99 // 100], 10))
    return print_targets(targets)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_for_ever(Path(sys.argv[-1]))
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)))
