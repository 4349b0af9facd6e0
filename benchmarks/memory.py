"""A million calls must leave resident memory where it was after the first thousand.

usage: memory.py [calls]
"""

import asyncio
import gc
import logging
import sys
from pathlib import Path
from typing import Any

from harness import Target, print_table, print_targets

from toolrun import ToolExecutor, ToolManager


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def suspends(a: int, b: int) -> int:
    """Add after one turn of the loop."""
    await asyncio.sleep(0)
    return a + b


def blocking(a: int, b: int) -> int:
    """Add in a thread."""
    return a + b


async def fails(a: int, b: int) -> int:
    """Fail."""
    raise ValueError(f"{a} and {b}")


def resident() -> float:
    gc.collect()
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


async def main(calls: int) -> bool:
    logging.disable(logging.CRITICAL)
    executor = ToolExecutor(ToolManager([add, suspends, blocking, fails]))
    # One in fifty goes to each of the slower kinds, so that every path is walked thousands of times.
    names = ["add"] * 47 + ["suspends", "blocking", "fails"]
    arguments: list[Any] = [{"a": 1, "b": 2}, {"a": 1, "b": "2"}]

    async def run(count: int) -> None:
        for number in range(count):
            await executor.execute(names[number % 50], arguments[number % 7 == 0])

    await run(1000)
    rows, first = [], resident()
    rows.append((1000, first))
    for _ in range(4):
        await run(calls // 4)
        rows.append((int(rows[-1][0]) + calls // 4, resident()))
    print_table("Resident memory", ("calls", "MiB"), rows)
    return print_targets([Target(f"growth over {calls:,} calls, MiB", rows[-1][1] - first, 2)])


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)))
