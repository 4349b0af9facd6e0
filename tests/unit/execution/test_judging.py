"""Arguments that may take long to check are judged in a process, within the deadline, with the same verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from toolrun import ErrorKind, SideEffects, ToolExecutor, ToolManager
from toolrun.schema import ArgumentSchema
from toolrun.schema.effort import MAX_CHANGE, MAX_CHECK

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
    assert "'items' does not fit its schema" in str(wrong.error)
    not_json = await executor.execute("counts", {"items": [*range(MANY), float("nan")]})
    assert "must be a number, got NaN" in str(not_json.error)
    broken = await executor.execute("counts", '{"items":[' + "7," * MANY)
    assert "the arguments are not valid JSON" in str(broken.error)


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
    assert effort.is_within(arguments, MAX_CHANGE) is is_short
    assert effort.is_within(arguments, MAX_CHECK) is is_short
    assert not effort.is_flat


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
