"""Arguments that may take long to check are judged in a process, within the deadline, with the same verdict."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from toolrun import ErrorKind, SideEffects, ToolExecutor, ToolManager, tool
from toolrun.json import dumps
from toolrun.schema import ArgumentSchema, Checked, Problem, remote_check, repair
from toolrun.schema.arguments import with_names
from toolrun.schema.origin import Origin

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "integer"}},
        "text": {"type": "string", "pattern": "(?=.*z)b"},
        "kinds": {"type": "array", "items": {"enum": [{"n": n} for n in range(200)]}},
    },
    "additionalProperties": False,
}
MANY = 60_000
HOPELESS = {"text": "a" * 200_000}
"""Its pattern takes the square of its length: half a minute."""


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


class Counts:
    """A tool with that schema that says how many items it got."""

    name = "counts"
    description = "Count."
    schema = SCHEMA

    async def ainvoke(self, arguments: dict[str, Any]) -> int:
        return len(arguments.get("items", ()))


@pytest_asyncio.fixture
async def executor() -> AsyncIterator[ToolExecutor]:
    made = ToolExecutor(ToolManager([Counts()]), 30.0)
    yield made
    await made.close()


async def test_large_arguments_get_the_verdict_that_small_ones_get(executor: ToolExecutor) -> None:
    right = await executor.execute("counts", {"items": list(range(MANY))})
    assert right.result == MANY
    text = await executor.execute("counts", '{"items":[' + ",".join(["7"] * MANY) + "]}")
    assert text.result == MANY
    repaired = await executor.execute("counts", {"items": [1] * 2_000 + ["5"]})
    assert (repaired.result, [str(it) for it in repaired.repairs]) == (
        2_001,
        ['items[2000]: "5" → 5 (number sent as text)'],
    )
    wrong = await executor.execute("counts", {"items": [*range(MANY), "x"]})
    assert (wrong.error_kind, wrong.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
    assert "'items' does not match its schema" in str(wrong.error)
    not_json = await executor.execute("counts", {"items": [*range(MANY), float("nan")]})
    assert "must be a number, got NaN" in str(not_json.error)
    broken = await executor.execute("counts", '{"items":[' + "7," * MANY)
    assert "the arguments are not valid JSON" in str(broken.error)
    twice = await executor.execute("counts", '{"items":[1],"items":[' + ",".join(["7"] * MANY) + "]}")
    assert "'items' is sent twice, with different values" in str(twice.error)


async def test_what_is_beyond_all_bounds_is_refused_at_once(executor: ToolExecutor) -> None:
    too_large: list[Any] = [{"items": [0] * 5_000_000}, "[" * 10_000_001]
    for arguments in too_large:
        result = await executor.execute("counts", arguments)
        assert (result.error_kind, result.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
        assert "larger than 10,000,000 characters" in str(result.error)


async def test_a_check_that_takes_too_long_ends_at_the_deadline_and_the_tool_never_began(
    executor: ToolExecutor,
) -> None:
    result = await executor.execute("counts", HOPELESS, timeout=0.5)
    assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.NOT_STARTED)
    assert "before it began: its arguments were being checked" in str(result.error)
    assert (await executor.execute("counts", {"items": [1]})).result == 1


RECURSIVE: dict[str, Any] = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}, {"type": "integer"}]}},
}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"node": value}


@pytest.mark.parametrize(
    ("schema", "arguments", "is_short"),
    [
        (SCHEMA, {"items": [1, 2, 3]}, True),
        (SCHEMA, {"items": [1] * 100_000}, False),
        (SCHEMA, {"text": "a" * 100}, True),
        (SCHEMA, {"text": "a" * 40_000}, False),
        (SCHEMA, '{"text": "' + "a" * 40_000 + '"}', False),
        (SCHEMA, '{"items": [1, 2, 3]}', True),
        (SCHEMA, {"kinds": [{"n": 199}] * 1_000}, False),
        (SCHEMA, {"x" * 3_000_000: 1}, False),
        (RECURSIVE, nested(3), True),
        (RECURSIVE, nested(40), False),
    ],
    ids=lambda it: str(it)[:20],
)
def test_how_long_a_check_may_take_is_known_before(schema: Any, arguments: object, is_short: bool) -> None:
    effort = ArgumentSchema(schema).effort
    assert effort.is_short(arguments, is_change=True) is is_short
    assert effort.is_short(arguments) is is_short
    assert not effort.is_flat


OPTIONS = [f"option-{n:05d}" for n in range(20_000)]


@pytest.mark.parametrize(
    ("items", "count"),
    [
        ({"enum": OPTIONS}, 2_900),
        ({"enum": OPTIONS}, 1),
        ({"type": "string", "enum": OPTIONS[:300]}, 500),
        ({"oneOf": [{"const": it, "title": "x"} for it in OPTIONS[:300]]}, 60),
        ({"anyOf": [{"enum": OPTIONS[:500]}, {"enum": OPTIONS[500:1_000]}]}, 60),
        ({"type": "object", "required": OPTIONS}, 1),
    ],
    ids=["enum", "one value", "short enum", "oneOf", "anyOf", "required"],
)
def test_values_that_are_none_of_many_options_are_not_changed_or_explained_on_the_loop(items: Any, count: int) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "array", "items": items}}}
    effort = ArgumentSchema(schema).effort
    assert not effort.is_short({"x": ["nope"] * count}, is_change=True)
    few: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "array", "items": {"enum": OPTIONS[:20]}}}}
    assert ArgumentSchema(few).effort.is_short({"x": ["nope"] * 100}, is_change=True)


FRACTION: dict[str, Any] = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "number", "multipleOf": 1e-200}}},
}


@pytest.mark.parametrize("size", [300_000, 900_000])
@pytest.mark.parametrize(
    "make",
    [
        lambda size: '{"text": "' + r"\n" * (size // 2) + '",}',
        lambda size: {"args": '{"items": [' + "1," * (size // 2) + "1]}"},
        lambda size: {"items": "[" + "1," * (size // 2) + "1]"},
        lambda size: {"text": "as JSON: {" + r"\n" * (size // 2) + "}"},
        lambda size: ('{"text": "' + r"\n" * (size // 2) + '",}').encode(),
    ],
    ids=["almost JSON", "wrapped", "list as text", "prose", "bytes"],
)
def test_a_long_text_that_may_be_read_as_json_is_not_read_on_the_loop(make: Callable[[int], Any], size: int) -> None:
    effort = ArgumentSchema(properties(items={"type": "array"}, text={"type": "string"})).effort
    assert not effort.is_short(make(size), is_change=True)
    assert effort.is_short(make(100), is_change=True)
    assert effort.is_short({"text": "words, " * 100_000}), "no more than to look at it"


def test_numbers_that_take_long_to_compare_are_not_compared_on_the_loop() -> None:
    fractions = ArgumentSchema(FRACTION).effort
    assert not fractions.is_short({"items": [1.7e200] * 2_000})
    assert fractions.is_short({"items": [1.7e200] * 100})
    integers = ArgumentSchema(properties(items={"type": "array", "items": {"maximum": 10**300}})).effort
    assert not integers.is_short({"items": [10**300] * 9_000})
    assert integers.is_short({"items": [2**62] * 9_000})


@pytest.mark.parametrize(
    ("properties", "is_flat"),
    [
        ({"a": {"type": "integer", "minimum": 1}, "b": {"type": "string"}}, True),
        ({"a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}, True),
        ({"a": {"enum": ["x", "y"]}}, True),
        ({"a": {"type": "string", "pattern": "x"}}, False),
        ({"a": {"type": "array"}}, False),
        ({"a": {"type": ["object", "null"]}}, False),
        ({"a": {"enum": [{"x": 1}]}}, False),
        ({"a": {}}, False),
    ],
    ids=str,
)
def test_a_schema_of_plain_parameters_takes_the_same_time_for_all_arguments(properties: Any, is_flat: bool) -> None:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    assert ArgumentSchema(schema).effort.is_flat is is_flat


class Renames(Counts):
    """A tool whose parameter has another name, as those of MCP servers may."""

    name = "renames"

    def rename_arguments(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        known = {"things": "items"}
        return {known.get(it, it): value for it, value in arguments.items()}, {
            it: known[it] for it in arguments if it in known
        }


@pytest.mark.parametrize(
    "wrap",
    [
        lambda items: {"things": items},
        lambda items: {"ITEMS": items},
        lambda items: {"args": {"things": items}},
        lambda items: {"name": "renames", "arguments": {"Items": items}},
        lambda items: {"items": items, "unrelated": 1},
        lambda items: {"items": items, "item": 1},
        lambda items: {"items": [*items, "x"]},
    ],
    ids=["renamed", "case", "wrapped", "named", "foreign", "close", "wrong"],
)
async def test_what_is_done_to_large_arguments_is_recorded_as_for_small_ones(wrap: Any) -> None:
    executor = ToolExecutor(ToolManager([Renames()]))
    small, large = [await executor.execute("renames", wrap([1] * many)) for many in (3, MANY)]
    await executor.close()
    assert small.dropped == large.dropped
    assert small.error_kind == large.error_kind
    assert [(it.path, it.reason) for it in small.repairs] == [(it.path, it.reason) for it in large.repairs]
    assert (small.result, large.result) in ((3, MANY), (None, None))


async def test_large_arguments_that_need_many_repairs_come_back_repaired(executor: ToolExecutor) -> None:
    result = await executor.execute("counts", {"items": ["1234567"] * MANY})
    assert (result.error, result.result) == (None, MANY)
    assert str(result.repairs[0]) == 'items[0]: "1234567" → 1234567 (number sent as text)'


async def test_a_large_result_of_an_isolated_tool_is_whole_and_ready_to_be_read(executor: ToolExecutor) -> None:
    executor.manager.add(rows)
    result = await executor.execute("rows", {"count": 30_000})
    assert result.result == [{"n": n} for n in range(30_000)]
    assert result.rendered is not None
    assert result.text.startswith('[{"n":0},{"n":1}')


@tool(isolated=True)
def rows(count: int) -> list[dict[str, int]]:
    """Make rows."""
    return [{"n": n} for n in range(count)]


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "device_name": {"type": "string"},
        "level": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["on", "off"]},
    },
    "required": ["level"],
}
names = st.sampled_from(
    ["device_name", "deviceName", "dev", "level", "LEVEL", "lvl", "tags", "mode", "args", "foreign"]
)
values = st.none() | st.integers(-3, 3) | st.sampled_from(["5", "ON", "x", "[1]", '["a"]', '{"level": 1}', "é"])
arguments = st.dictionaries(names, values | st.lists(values, max_size=3), max_size=4)


def judged(schema: ArgumentSchema, given: object, strict: bool, rename: Any) -> Checked:
    """What the executor has done with large arguments, without the process."""
    assert remote_check.can_fit(given)
    named = schema.find_names(given, rename, ("t",))
    if isinstance(named, Problem):
        return Checked({}, problems=(named,))
    pieces = remote_check.write_pieces(named.arguments)
    assert isinstance(pieces, list)
    work = repair.MAX_WORK
    try:
        answer = remote_check.check_pieces(dumps(schema.schema).decode(), schema.origin.value, pieces, strict)
    finally:
        repair.MAX_WORK = work
    return with_names(remote_check.read_answer(answer, named.arguments), named)


@given(
    arguments | st.dictionaries(st.sampled_from(["args", "input"]), arguments, min_size=1, max_size=1),
    st.sampled_from(Origin),
    st.booleans(),
)
def test_both_ways_of_checking_say_the_same(given: dict[str, Any], origin: Origin, strict: bool) -> None:
    def rename(sent: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        found = {"lvl": "level"} if "lvl" in sent and "level" not in sent else {}
        return {found.get(it, it): value for it, value in sent.items()}, found

    schema = ArgumentSchema(PARAMETERS, origin)
    here = schema.check(given, strict=strict, rename=rename, tool_names=("t",))
    there = judged(schema, given, strict, rename)
    assert (there.repairs, there.dropped, there.problems, dict(there.renamed)) == (
        here.repairs,
        here.dropped,
        here.problems,
        dict(here.renamed),
    )
    assert here.problems or there.arguments == here.arguments


def test_how_large_arguments_are_is_known_without_writing_them() -> None:
    text = "x" * 4_000_000
    assert remote_check.can_fit({"a": text, "b": text})
    assert not remote_check.can_fit({"a": text, "b": [text, {"c": text}]})
    assert not remote_check.can_fit({text * 3: 1})
    assert not remote_check.can_fit({"items": [0] * 5_000_000})
    shared = [text]
    assert remote_check.can_fit({"a": shared, "b": shared})


class Lazy(Mapping[str, Any]):
    """Makes its items when asked, and remembers which threads asked."""

    def __init__(self, count: int, make: Callable[[], Any] = lambda: [1, 2]) -> None:
        self.count, self.make = count, make
        self.threads: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        self.threads.add(threading.current_thread().name)
        return chain(["items"], (f"name{n}" for n in range(self.count - 1)))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> Any:
        self.threads.add(threading.current_thread().name)
        return self.make()


class Touchy:
    """Mixed into one of JSON's types: none of its own methods may be called on the loop."""

    def _refuse(self, *_: object) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        raise AssertionError

    __len__ = __iter__ = __getitem__ = __contains__ = keys = values = items = copy = __eq__ = _refuse
    count = strip = __str__ = encode = isascii = _refuse
    __hash__: Any = object.__hash__


class TouchyDict(Touchy, dict[str, Any]):
    pass


class TouchyList(Touchy, list[Any]):
    pass


class TouchyTuple(Touchy, tuple[Any, ...]):
    __slots__ = ()


class TouchyText(Touchy, str):
    __slots__ = ()


async def test_arguments_that_are_subclasses_of_jsons_types_are_read_as_the_base_type_has_them(
    executor: ToolExecutor,
) -> None:
    for items in (TouchyList([1, 2]), TouchyTuple((1, 2))):
        both: tuple[Any, ...] = ({"items": items}, TouchyDict(items=items))
        for arguments in both:
            assert (await executor.execute("counts", arguments)).result == 2
    text: Any = TouchyText('{"items": [1, 2]}')
    assert (await executor.execute("counts", text)).result == 2
    wrong = await executor.execute("counts", TouchyDict(text=TouchyText("b"), items=TouchyList(["x"])))
    assert "'items[0]' must be integer" in str(wrong.error)


@pytest.mark.parametrize(
    "arguments",
    [
        OrderedDict(items=[7] * 100_000),
        {"items": type("Items", (list,), {})([7] * 100_000)},
        {"items": type("Items", (tuple,), {})([7] * 100_000)},
        {"text": type("Text", (str,), {})("a" * 40_000)},
        [OrderedDict(items=[OrderedDict(a=[7] * 1_000)] * 100)],
        Lazy(1),
        {"items": Lazy(1)},
        {"items": object()},
    ],
    ids=lambda it: str(it)[:30],
)
def test_what_is_large_or_has_code_of_its_own_is_not_read_on_the_loop(arguments: Any) -> None:
    effort = ArgumentSchema(SCHEMA).effort
    assert not effort.is_short(arguments)
    assert not effort.is_short(arguments, is_change=True)


def test_what_is_small_and_a_subclass_of_jsons_types_is_read_on_the_loop() -> None:
    effort = ArgumentSchema(SCHEMA).effort
    assert effort.is_short(TouchyDict(items=TouchyList([1]), text=TouchyText("b")), is_change=True)


async def test_a_mapping_is_read_in_a_thread_and_needs_no_process_if_it_is_small(executor: ToolExecutor) -> None:
    arguments = Lazy(1)
    result = await executor.execute("counts", arguments)
    assert (result.result, arguments.threads) == (2, {"toolrun"})
    state = executor._states[asyncio.get_running_loop()]
    assert state.isolated is None
    assert not executor.health().abandoned


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_a_mapping_whose_methods_raise_anything_is_refused(executor: ToolExecutor, error: BaseException) -> None:
    def fail() -> Any:
        raise error

    result = await executor.execute("counts", Lazy(1, fail))
    assert (result.error_kind, result.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
    assert "the arguments cannot be read" in str(result.error)


async def test_a_mapping_that_blocks_is_given_up_at_the_deadline_and_counted(executor: ToolExecutor) -> None:
    release = threading.Event()
    result = await executor.execute("counts", Lazy(1, lambda: release.wait(10)), timeout=0.1)
    assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.NOT_STARTED)
    await asyncio.sleep(0)  # its task is told
    assert executor.health().abandoned == {"counts": 1}
    release.set()


async def test_a_mapping_without_an_end_is_refused(executor: ToolExecutor) -> None:
    result = await executor.execute("counts", Lazy(1 << 40, int))
    assert "more than 100,000 names" in str(result.error)
