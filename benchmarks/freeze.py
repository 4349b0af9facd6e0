"""How long one call holds the event loop at most, whatever its arguments, its name and its result are.

A task beats every millisecond while the call runs; the longest gap between two beats is the hold. A thread that is in C
code holds the loop as well, because it holds the GIL. Each case runs several times and its best run counts, because a
busy machine holds everybody; a real hold is there in every run. Other processes hold it in every run, too, if there are
enough of them: what counts is the part of a gap in which this process, with all of its threads, had a processor.
Python itself has steps that no library can cut: to free an object, to look through all containers for garbage, to let a
dict grow. Where one of them takes longer than the limit for the value of a case, the floor says how long: the same
steps for the same value, without toolrun, the least of as many runs. The hold counts in proportion to it.
usage: freeze.py [runs [part of a name]]    only the cases that have this in their name
"""

import asyncio
import gc
import json
import logging
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from freeze_mcp import ANSWERED, PROMISED, Prepare, answered, promised, servers, serving
from harness import Target, print_table, print_targets

from toolrun import Runtime, ToolExecutor, ToolManager, tool

LIMIT = 50.0
DEADLINE = 4.0
LONG = 30.0
"""For what takes its time elsewhere."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "integer"}},
        "unique": {"type": "array", "uniqueItems": True},
        "text": {"type": "string", "pattern": "(?=.*z)b"},
        "kinds": {"type": "array", "items": {"enum": [{"n": n} for n in range(2_000)]}},
        "options": {"type": "array", "items": {"enum": [f"option-{n:05d}" for n in range(10_000)]}},
        "one_of": {"type": "array", "items": {"oneOf": [{"const": f"v{n}", "title": "x"} for n in range(300)]}},
        "fractions": {"type": "array", "items": {"type": "number", "multipleOf": 1e-200}},
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


class LazyMapping(Mapping[str, Any]):
    """Arguments that are made as they are asked for."""

    def __len__(self) -> int:
        return 2_000_000

    def __iter__(self) -> Iterator[str]:
        return (f"name{n}" for n in range(len(self)))

    def __getitem__(self, name: str) -> int:
        return 7


class Hooked:
    """Takes its time whatever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        time.sleep(3)
        return object.__getattribute__(self, name)


class SlowNumberError(OSError):
    @property
    def errno(self) -> int:  # type: ignore[override]  # what is tried
        time.sleep(3)
        return 2


def slowly() -> Iterator[int]:
    time.sleep(3)
    yield 1


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
    value: Callable[[], Any] | None = None
    """Makes what the caller gives or gets, for the floor."""
    deadline: float = DEADLINE
    sent_over: str = ""
    """How it is sent to toolrun as a server; empty: the executor is called."""
    expected: str = ""
    """How the call must end; empty: in any way."""


ITEMS = list(range(1_000_000))
REQUESTS: dict[str, dict[str, Any]] = {
    "1,000,000 items": {"items": ITEMS},
    "300,000 records": {"unique": [{"n": n, "text": "a, b"} for n in range(300_000)]},
    "text of 15 MB": {"foreign": "x" * 15_000_000},
}


def cases() -> list[Case]:
    wide = {f"name{n}": n for n in range(1_000_000)}
    return [
        Case("a small call", "checked", {"items": [1]}),
        Case("pattern with lookaround, 40,000 characters", "checked", {"text": "a" * 40_000}),
        Case("1,000,000 right items", "checked", {"items": [7] * 1_000_000}),
        Case("1,000,000 wrong items", "checked", {"items": ["x"] * 1_000_000}),
        Case("5,000,000 wrong items", "checked", {"items": ["x"] * 5_000_000}),
        Case("4,900,000 different integers", "checked", {"items": list(range(4_900_000))}),
        Case("a text of 9 MB", "checked", {"foreign": "é" * 9_000_000}),
        Case("1,000,000 items as JSON text", "checked", '{"items":[' + ",".join(["7"] * 1_000_000) + "]}"),
        Case("uniqueItems, 300,000 objects", "checked", {"unique": [{"k": n} for n in range(300_000)]}),
        Case("enum of 2,000 objects × 5,000 items", "checked", {"kinds": [{"n": 1999}] * 5_000}),
        Case("alternatives that multiply, 18 levels", "checked", {"node": nested(14)}),
        Case("1,000,000 argument names", "checked", wide),
        Case("one argument name of 16 MB", "checked", {"x" * 16_000_000: 1}),
        Case("a tool name of 16 MB", "y" * 16_000_000, {}),
        Case("an unknown tool name beside 20,000 alike", ALIKE[0][:-2], {}, expected="unknown_tool"),
        Case("2,900 values that are none of 10,000 options", "checked", {"options": ["nope"] * 2_900}),
        Case("200 values that are none of 300 alternatives", "checked", {"one_of": ["nope"] * 200}, expected=INVALID),
        Case("9,000 fractions", "checked", {"fractions": [1.7e200] * 9_000}, expected="ok"),
        Case("an OrderedDict of 1,000,000 items", "checked", OrderedDict(items=[7] * 1_000_000), deadline=LONG),
        Case("a lazy mapping of 2,000,000 names", "checked", LazyMapping(), expected=INVALID),
        Case("almost JSON, 900 kB of escapes", "checked", '{"text": "' + r"\n" * 450_000 + '",}'),
        Case("900 kB of JSON in a wrapper", "checked", {"args": '{"items": [' + "7," * 450_000 + "7]}"}),
        Case("a list as a text of 900 kB", "checked", {"items": "[" + "7," * 450_000 + "7]"}),
        Case("an exception whose errno blocks", "fails_slowly", {}, expected="tool_error"),
        *(Case(f"result: {name}", name, {}, ENDLESS.get(name, make)) for name, make in RESULTS.items()),
        Case("an exception whose __str__ blocks", "fails", {}),
        Case("1,000,000 items to a worker", "count", {"items": list(range(1_000_000))}, deadline=LONG),
        *(Case(f"worker's result: {it}", "give", {"kind": it}, partial(given, it), LONG) for it in GIVEN),
        *(
            Case(f"MCP server's answer{how}: {it}", tool, {"kind": it}, partial(answered, it), LONG)
            for how, tool in (("", "answer"), (", HTTP", "answer_json"), (", HTTP, events", "answer_events"))
            for it in ANSWERED
        ),
        Case("MCP server's refusal: 400,000 records", "answer_refusal", {"kind": "400,000 records"}, deadline=LONG),
        *(Case(f"structured output with schema: {it}", it, {}, partial(promised, it)) for it in PROMISED),
        Case("1,000,000 items to an MCP server over HTTP", "answer_json", {"items": ITEMS}, deadline=LONG),
        *(
            Case(f"request to our server, {how}: {it}", "checked", arguments, sent_over=how)
            for how in ("HTTP", "HTTP, through the SDK", "stdio")
            for it, arguments in REQUESTS.items()
        ),
    ]


INVALID = "invalid_arguments"
ALIKE = [f"{'ab' * 42}{n:05d}" for n in range(20_000)]
RESULTS: dict[str, Callable[[], Any]] = {
    "generator that blocks": slowly,
    "generator that blocks, in a dict": lambda: {"rows": slowly()},
    "1,000 generators of 1,000 items": lambda: {"rows": [(n for n in range(1000)) for _ in range(1000)]},
    "100,000 levels": lambda: nested(100_000),
    "object whose hooks block": Hooked,
    "table of 400,000 rows": lambda: Frame(400_000),
    "model_dump that blocks": Slow,
    "sequence without end": Lazy,
    "text of 50 MB": lambda: "x" * 50_000_000,
    "text of 50 MB, not ASCII": lambda: "é" * 25_000_000,
    "list of 5,000,000 items": lambda: list(range(5_000_000)),
    "dict of 1,000,000 keys": lambda: {str(n): n for n in range(1_000_000)},
    "bytes, 50 MB": lambda: b"\xff" * 50_000_000,
    "set of 500,000 items": lambda: set(range(500_000)),
}


ENDLESS: dict[str, Callable[[], Any]] = {
    "generator that blocks": str,
    "generator that blocks, in a dict": str,
    "1,000 generators of 1,000 items": lambda: [list(range(1000)) for _ in range(1000)],
    "object whose hooks block": str,
    "model_dump that blocks": str,
    "sequence without end": lambda: [[1] * 10_000_000, [1] * 10_000_000],
}
"""What their values are in the end: a sequence is cut, and copied."""

GIVEN: dict[str, Callable[[], Any]] = {
    "text of 60 MB": lambda: "x" * 60_000_000,
    "text of 60 MB, not ASCII": lambda: "€" * 20_000_000,
    "4,000,000 integers": lambda: list(range(4_000_000)),
    "1,000,000 records": lambda: [{"n": n, "text": "a, b"} for n in range(1_000_000)],
    "150,000 nested records": lambda: [{"n": n, "at": [n, {"x": [n]}]} for n in range(150_000)],
    "object of 1,000,000 members": lambda: {f"key{n}": n for n in range(1_000_000)},
}


def given(kind: str) -> Any:
    return GIVEN[kind]()


@tool(isolated=True)
def give(kind: str) -> Any:
    """Give something large."""
    return given(kind)


@tool(isolated=True)
def count(items: list[int]) -> int:
    """Count."""
    return len(items)


def nothing() -> None:
    """Do nothing."""


def add_tools(made: ToolManager) -> None:
    for each in (Checked(), give, count):
        made.add(each)

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

    async def fails_slowly() -> None:
        """Fail."""
        await asyncio.sleep(0)
        raise SlowNumberError(2, "no")

    made.add(fails)
    made.add(fails_slowly)
    for name in ALIKE:
        made.add(tool(name=name, description="Nothing.")(nothing))


def prepared(executor: ToolExecutor, ways: dict[str, Prepare], case: Case) -> Callable[[], Awaitable[str]]:
    """What makes the call, and says how it ended."""
    name = case.tool.replace(" ", "_").replace(",", "")
    if case.sent_over:
        return partial(asyncio.to_thread, ways[case.sent_over]({"name": name, "arguments": case.arguments}))

    async def execute() -> str:
        result = await executor.execute(name, case.arguments, timeout=case.deadline)
        return "ok" if result.success else str(result.error_kind)

    return execute


async def hold(call: Callable[[], Awaitable[str]]) -> tuple[float, float, str]:
    """Milliseconds for which the loop was held: by us, and by anybody; and how the call ended."""
    ours, longest = 0.0, 0.0
    last, spent = time.perf_counter(), time.process_time()

    async def beat() -> None:
        nonlocal ours, longest, last, spent
        while True:
            await asyncio.sleep(0.001)
            now, spent_now = time.perf_counter(), time.process_time()
            ours, longest = max(ours, min(now - last, spent_now - spent)), max(longest, now - last)
            last, spent = now, spent_now

    heart = asyncio.create_task(beat())
    await asyncio.sleep(0.01)
    last, spent = time.perf_counter(), time.process_time()
    ours = longest = 0.0
    ended = await call()
    await asyncio.sleep(0.005)
    heart.cancel()
    return ours * 1000, longest * 1000, ended


def floor(case: Case) -> float:
    """Milliseconds that Python needs for one step with the value of a case, whoever does it."""
    if case.value is None:
        return 0.0
    gc.collect()
    before = timed(gc.collect)
    held = [case.value()]
    growth = 0.0
    if isinstance(held[0], dict):
        grown, members = dict[str, Any](), list(held[0].items())
        growth = max(timed(partial(grown.update, members[at : at + 1000])) for at in range(0, len(members), 1000))
        del grown, members
    return max(timed(gc.collect) - before, timed(held.clear), growth)


def timed(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000


async def measure(executor: ToolExecutor, ways: dict[str, Prepare], runs: int, wanted: str) -> bool:
    everything = [case for case in cases() if wanted in case.name]
    gc.collect()
    gc.freeze()  # a collection of this program's own millions of objects would be measured, too
    rows, wrong, worst = [], list[str](), 0.0
    for case in everything:
        call = prepared(executor, ways, case)
        found = [await hold(call) for _ in range(runs)]
        del call
        ours, longest = min(gap for gap, _, _ in found), min(gap for _, gap, _ in found)
        lowest = min(floor(case) for _ in range(runs))
        worst = max(worst, ours / max(LIMIT, lowest) * LIMIT)
        ended = found[0][2]
        if case.expected and ended != case.expected:
            wrong.append(f"{case.name}: {ended} instead of {case.expected}")
        rows.append((case.name, ours, longest, f"{lowest:.0f}" if lowest > LIMIT else "", ended))
    print_table(
        f"How long one call holds the event loop, deadline {DEADLINE:g} s",
        ("case", "longest hold, ms", "with other processes, ms", "floor, ms", "answer"),
        rows,
    )
    for line in wrong:
        print(f"wrong answer: {line}")
    return print_targets([Target("longest hold of the event loop by one call, ms", worst, LIMIT)]) and not wrong


async def main(config: Path, runs: int, wanted: str) -> bool:
    logging.getLogger("toolrun").addHandler(logging.NullHandler())
    logging.getLogger("toolrun").propagate = False
    async with Runtime.open(config) as runtime:
        add_tools(runtime.manager)
        await runtime.ready()
        async with serving(runtime) as ways:
            return await measure(runtime.executor, ways, runs, wanted)


def write_config(directory: str, servers: dict[str, dict[str, Any]]) -> Path:
    lines: list[str] = []
    for name, settings in servers.items():
        lines += [f"[servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    path = Path(directory, "toolrun.toml")
    path.write_text("\n".join(lines))
    return path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, servers() as settings:
        runs, wanted = int((*sys.argv[1:], "3")[0]), " ".join(sys.argv[2:])
        is_met = asyncio.run(main(write_config(directory, settings), runs, wanted))
    sys.exit(not is_met)
