"""How long one call holds the event loop at most, whatever its arguments, its name and its result are.

A task beats every millisecond while the call runs; the longest gap between two beats is the hold. A thread that is in C
code holds the loop as well, because it holds the GIL. Each case runs several times and its best run counts, because a
busy machine holds everybody; a real hold is there in every run.
usage: freeze.py [runs]
"""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness import Target, print_table, print_targets

from toolrun import ToolExecutor, ToolManager, tool

LIMIT = 50.0
DEADLINE = 4.0
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "integer"}},
        "unique": {"type": "array", "uniqueItems": True},
        "text": {"type": "string", "pattern": "(?=.*z)b"},
        "kinds": {"type": "array", "items": {"enum": [{"n": n} for n in range(2_000)]}},
        "node": {"$ref": "#/$defs/node"},
    },
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/node"}},
                {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "integer"}]}},
            ]
        }
    },
    "additionalProperties": False,
}


class Checked:
    """A tool whose arguments are expensive to check."""

    name = "checked"
    description = "Take arguments."
    schema = SCHEMA

    async def ainvoke(self, arguments: dict[str, Any]) -> int:
        return len(arguments)


class Slow:
    """An object whose methods take their time."""

    def model_dump(self) -> str:
        time.sleep(30)
        return ""


class Lazy(Sequence[int]):
    """A sequence without an end."""

    def __len__(self) -> int:
        return 1 << 60

    def __getitem__(self, index: Any) -> Any:
        return index

    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


class Frame:
    """A table that becomes a dict, as a DataFrame does."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def to_dict(self) -> dict[str, dict[int, int]]:
        return {name: {row: row for row in range(self._rows)} for name in "ab"}


class SlowError(Exception):
    def __str__(self) -> str:
        time.sleep(30)
        return ""


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value, value]
    return value


@dataclass
class Case:
    name: str
    tool: str
    arguments: Any


def cases() -> list[Case]:
    wide = {f"name{n}": n for n in range(1_000_000)}
    return [
        Case("a small call", "checked", {"items": [1]}),
        Case("pattern with lookaround, 40,000 characters", "checked", {"text": "a" * 40_000}),
        Case("1,000,000 right items", "checked", {"items": [7] * 1_000_000}),
        Case("1,000,000 wrong items", "checked", {"items": ["x"] * 1_000_000}),
        Case("5,000,000 wrong items", "checked", {"items": ["x"] * 5_000_000}),
        Case("1,000,000 items as JSON text", "checked", '{"items":[' + ",".join(["7"] * 1_000_000) + "]}"),
        Case("uniqueItems, 300,000 objects", "checked", {"unique": [{"k": n} for n in range(300_000)]}),
        Case("enum of 2,000 objects × 5,000 items", "checked", {"kinds": [{"n": 1999}] * 5_000}),
        Case("alternatives that multiply, 18 levels", "checked", {"node": nested(14)}),
        Case("1,000,000 argument names", "checked", wide),
        Case("one argument name of 16 MB", "checked", {"x" * 16_000_000: 1}),
        Case("a tool name of 16 MB", "y" * 16_000_000, {}),
        *(Case(f"result: {name}", name, {}) for name in RESULTS),
        Case("an exception whose __str__ blocks", "fails", {}),
    ]


RESULTS: dict[str, Callable[[], Any]] = {
    "table of 400,000 rows": lambda: Frame(400_000),
    "model_dump that blocks": Slow,
    "sequence without end": Lazy,
    "text of 100 MB": lambda: "x" * 100_000_000,
    "text of 50 MB, not ASCII": lambda: "é" * 25_000_000,
    "list of 5,000,000 items": lambda: list(range(5_000_000)),
    "dict of 1,000,000 keys": lambda: {str(n): n for n in range(1_000_000)},
    "bytes, 50 MB": lambda: b"\xff" * 50_000_000,
    "set of 500,000 items": lambda: set(range(500_000)),
}


def manager() -> ToolManager:
    made = ToolManager([Checked()])

    def returns(name: str, make: Callable[[], Any]) -> None:
        value = make()  # ready, because a tool that computes on the loop holds it itself

        async def body() -> Any:
            await asyncio.sleep(0)
            return value

        made.add(tool(name=name.replace(" ", "_").replace(",", ""), description="Return.")(body))

    for name, make in RESULTS.items():
        returns(name, make)

    async def fails() -> None:
        """Fail."""
        await asyncio.sleep(0)
        raise SlowError

    made.add(fails)
    return made


async def hold(executor: ToolExecutor, case: Case) -> tuple[float, str]:
    """Milliseconds for which the loop was held, and how the call ended."""
    longest, last = 0.0, time.perf_counter()

    async def beat() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    name = case.tool.replace(" ", "_").replace(",", "")
    heart = asyncio.create_task(beat())
    await asyncio.sleep(0.01)
    last = time.perf_counter()
    longest = 0.0
    result = await executor.execute(name, case.arguments, timeout=DEADLINE)
    await asyncio.sleep(0.005)
    heart.cancel()
    gap = longest * 1000
    return gap, "ok" if result.success else str(result.error_kind)


async def main(runs: int) -> bool:
    logging.getLogger("toolrun").addHandler(logging.NullHandler())
    logging.getLogger("toolrun").propagate = False
    executor = ToolExecutor(manager())
    everything = cases()
    gc.collect()
    gc.freeze()  # a collection of this program's own millions of objects would be measured, too
    rows, worst = [], 0.0
    for case in everything:
        found = [await hold(executor, case) for _ in range(runs)]
        longest = min(gap for gap, _ in found)
        worst = max(worst, longest)
        rows.append((case.name, longest, found[0][1]))
    print_table(
        f"How long one call holds the event loop, deadline {DEADLINE:g} s", ("case", "longest hold, ms", "answer"), rows
    )
    await executor.close()
    return print_targets([Target("longest hold of the event loop by one call, ms", worst, LIMIT)])


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
