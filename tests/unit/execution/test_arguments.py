"""What a tool gets of the arguments that were sent, and what is said of the rest: through the executor."""

from __future__ import annotations

import enum
import json
import logging
import math
from dataclasses import dataclass
from typing import Any

import pytest

from toolrun import ErrorKind, ToolExecutor, ToolResult
from toolrun.schema.origin import Origin

DEEP = 10_000


class Received:
    """A tool with any schema that keeps what it gets."""

    name = "received"
    description = "Keep the arguments."
    inline = True

    def __init__(self, schema: dict[str, Any], origin: Origin) -> None:
        self.schema = schema
        self.schema_origin = origin
        self.calls: list[dict[str, Any]] = []

    def invoke(self, arguments: dict[str, Any]) -> str:
        self.calls.append(arguments)
        return "done"


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


@dataclass
class Options:
    dry_run: bool = False


class Text(str):
    """A text of another type."""


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = "red"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
NOT_JSON: dict[str, Any] = {
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "beyond a float": 10**400,
    "beyond printing": 10**5000,
    "below a float": -(10**400),
    "half a character": "\ud800",
    "half a character as a name": {"\udfff": 1},
    "a name that is no text": {1: 2},
    "set": {1},
    "bytes": b"x",
    "enumeration": Colour.RED,
    "object": object(),
    "cycle": CYCLE,
    "deep": nested(DEEP),
}
SCHEMAS: dict[str, Any] = {
    "any": {},
    "nullable": {"type": ["number", "string", "array", "object", "null"]},
    "maximum": {"maximum": 100},
    "minimum": {"minimum": -100},
    "multiple": {"multipleOf": 7},
    "options": {"enum": [None, 1, "a"]},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string"},
    "list": {"type": "array"},
    "object": {"type": "object"},
}


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("inside", ["alone", "in a list", "in an object"])
@pytest.mark.parametrize("what", NOT_JSON)
async def test_what_json_cannot_express_reaches_no_tool_whatever_the_schema(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture, what: str, inside: str, origin: Origin
) -> None:
    value = NOT_JSON[what]
    value = {"alone": value, "in a list": [1, value], "in an object": {"x": value}}[inside]
    for schema in [properties(v=it) for it in SCHEMAS.values()] + [{"type": "object"}, properties(w={}) | OPEN]:
        tool = Received(schema, origin)
        executor.manager.remove(tool.name)
        executor.manager.add(tool)
        result = await executor.execute("received", {"v": value})
        assert (result.error_kind, tool.calls) == (ErrorKind.INVALID_ARGUMENTS, []), schema
        encodable(result)
    assert caplog.text.encode()


OPEN: dict[str, Any] = {"additionalProperties": True}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "-1e999", "1" * 400, "1" * 5000, '"\\ud800"', "[" * DEEP])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
async def test_the_same_as_json_text_is_refused_too(executor: ToolExecutor, text: str, schema: Any) -> None:
    tool = executor.manager.add(Received(properties(v=schema), Origin.DECLARED))
    result = await executor.execute("received", f'{{"v": {text}}}')
    assert (result.error_kind, tool.calls) == (ErrorKind.INVALID_ARGUMENTS, [])
    encodable(result)


@pytest.mark.parametrize(
    ("schema", "value", "is_valid"),
    [
        ({"maximum": 2**63}, 2**63, True),
        ({"maximum": 2**63}, 2**63 + 1, False),
        ({"type": "integer", "maximum": 100}, 2**64, False),
        ({"minimum": -(2**63)}, -(2**63) - 1, False),
        ({"type": "integer"}, 2**64, True),
        ({"type": "integer"}, -(2**63) - 1, True),
        ({"multipleOf": 3}, 3 * 10**30, True),
        ({"multipleOf": 3}, 3 * 10**30 + 1, False),
        ({"enum": [2**64]}, 2**64 + 1, False),
        ({"type": "integer"}, True, False),
        ({"type": "boolean"}, 1, False),
        ({"type": "number"}, 1, True),
    ],
)
async def test_large_integers_are_judged_alike_as_an_object_and_as_text(
    executor: ToolExecutor, schema: Any, value: Any, is_valid: bool
) -> None:
    tool = executor.manager.add(Received(properties(v=schema), Origin.DECLARED))
    for arguments in ({"v": value}, json.dumps({"v": value})):
        result = await executor.execute("received", arguments)
        assert result.success is is_valid
        encodable(result)
    assert tool.calls == ([{"v": value}] * 2 if is_valid else [])


@pytest.mark.parametrize("schema", [{}, {"type": ["array", "object", "string", "integer"]}])
async def test_tuples_and_subclasses_reach_a_tool_as_plain_json(executor: ToolExecutor, schema: Any) -> None:
    tool = executor.manager.add(Received(properties(v=schema), Origin.DECLARED))
    cases: list[tuple[Any, Any]] = [((1, 2), [1, 2]), (Text("x"), "x"), (Level.LOW, 1), ({Text("k"): (1,)}, {"k": [1]})]
    for value, plain in cases:
        assert (await executor.execute("received", {"v": value})).success
        got = tool.calls.pop()["v"]
        assert (got, type(got)) == (plain, type(plain))


def encodable(result: ToolResult) -> None:
    assert json.dumps(result.to_dict(), allow_nan=False, ensure_ascii=False).encode()
    assert result.text.encode()


async def test_a_name_that_looks_like_a_parameter_runs_nothing(executor: ToolExecutor) -> None:
    deleted: list[str] = []

    @executor.manager.add
    async def delete_rows(prefix: str = "") -> str:
        """Delete rows."""
        deleted.append(prefix)
        return "deleted"

    for arguments in ({"name_prefix": "row3"}, {"prefxi": "row3"}, {"where": "row3"}, {"prefix": "a", "prefixes": "b"}):
        result = await executor.execute("delete_rows", arguments)
        assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
        assert result.dropped == ()
    assert "unknown parameter 'prefixes' (did you mean 'prefix'?)" in (result.error or "")
    assert deleted == []


async def test_names_in_another_case_are_the_parameters_also_inside_of_objects(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    @executor.manager.add
    async def act(file_path: str, options: Options, **more: Any) -> list[Any]:
        """Act."""
        return [file_path, options.dry_run, more]

    sent: dict[str, Any] = {"filePath": "x", "Options": {"dryRun": True}, "extra": 1}
    with caplog.at_level(logging.INFO, "toolrun"):
        result = await executor.execute("act", sent)
    assert result.result == ["x", True, {"extra": 1}]
    assert [repair.reason for repair in result.repairs] == ["parameter name"] * 3
    assert '{filePath: "...", Options: "..."} → {file_path: "...", options: "..."}' in caplog.text


async def test_what_is_ignored_is_listed_logged_as_a_warning_and_told(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    @executor.manager.add
    async def halve(number: int) -> float:
        """Halve."""
        if number < 0:
            raise ValueError("negative")
        return number / 2

    for number, text in ((4, "2.0"), (-4, "Error: "), ("x", "Error: Invalid parameters: 'number'")):
        caplog.clear()
        result = await executor.execute("halve", {"number": number, "colour": "red", "why\n": 1})
        assert result.dropped == ("colour", "why\n")
        assert result.text.startswith(text)
        assert result.text.endswith("\nNote: ignored unknown arguments: colour, why\\n")
        assert any(
            it.levelno >= logging.WARNING and "ignored=colour, why\\n" in it.getMessage() for it in caplog.records
        )
        assert set(result.to_dict()) <= {"success", "result", "error", "tool_name", "execution_time_ms"}


async def test_a_call_inside_of_the_arguments_is_taken_out_if_it_is_one_of_this_tool(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    for wrapper in ("arguments", "parameters", "args"):
        assert (await executor.execute("add", {"name": "add", wrapper: {"a": 2}})).result == 3
    assert (await executor.execute("add", {"name": "erase", "arguments": {"a": 2}})).error_kind is (
        ErrorKind.INVALID_ARGUMENTS
    )


async def test_a_wrapper_beside_a_known_name_is_refused_and_not_ignored(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def create(name: str, admin: bool = True) -> str:
        """Create a user."""
        return name

    result = await executor.execute("create", {"name": "create", "arguments": {"name": "Bo", "admin": False}})
    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS


async def test_null_for_a_parameter_with_a_default_is_left_out(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def page(query: str, limit: int = 10, after: str | None = "x") -> list[Any]:
        """Page."""
        return [query, limit, after]

    result = await executor.execute("page", {"query": "q", "limit": None, "after": None})
    assert result.result == ["q", 10, None]
    assert [str(it) for it in result.repairs] == [
        'arguments: {"limit": null} → {} (null sent for a parameter with a default)'
    ]
    assert (await executor.execute("page", {"query": None})).error_kind is ErrorKind.INVALID_ARGUMENTS


async def test_a_name_that_is_close_is_refused_however_many_parameters_and_extras_there_are(
    executor: ToolExecutor,
) -> None:
    names = [f"parameter{number}" for number in range(61)]
    tool = Received(properties(**{name: {"type": "string"} for name in [*names, "recursive"]}), Origin.DECLARED)
    executor.manager.add(tool)
    for extras in (1, 40, 100):
        sent = {names[0]: "x", "recursiv": "no", **{f"zz{number}yy": "x" for number in range(extras - 1)}}
        assert (await executor.execute("received", sent)).error_kind is ErrorKind.INVALID_ARGUMENTS
    long = await executor.execute("received", {names[0]: "x", "recursive" * 20_000: "no"})
    assert long.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert tool.calls == []
