"""Structured content against the schema that promised it."""

from __future__ import annotations

from typing import Any

import pytest

from toolrun.errors import DefinitionError, SideEffects
from toolrun.json import JSON
from toolrun.mcp.output_check import MAX_WORK, OutputSchema, broken_promise
from toolrun.result import Content

WEATHER: dict[str, JSON] = {
    "type": "object",
    "properties": {"degrees": {"type": "number"}, "sky": {"enum": ["clear", "cloudy"]}},
    "required": ["degrees"],
}


def test_what_was_promised_is_no_problem() -> None:
    assert OutputSchema(WEATHER).problem({"degrees": 20.5, "sky": "clear", "more": [1]}) is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "missing 'degrees'"),
        ({"degrees": "20"}, "'degrees' must be number, got \"20\" (string)"),
        ({"degrees": 1, "sky": "green"}, '\'sky\' must be one of "clear", "cloudy"; got "green"'),
        ([1], "it does not match the schema"),
        ("text", "it does not match the schema"),
    ],
)
def test_what_was_not_promised_is_explained(data: JSON, problem: str) -> None:
    assert OutputSchema(WEATHER).problem(data) == problem


def test_the_root_may_be_anything_and_keeps_its_references() -> None:
    numbers = OutputSchema({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}})
    assert numbers.problem([1, 2]) is None
    assert numbers.problem([1, "x"]) == "'structuredContent[1]' must be integer, got \"x\" (string)"
    assert OutputSchema({"type": "string", "$schema": "http://json-schema.org/draft-07/schema#"}).problem(1) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "$ref": "https://example.com/schema.json"},
        {"type": "object", "$ref": "file:///etc/passwd"},
        {"type": "nonsense"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        # 2^26 checks
        {
            "type": "object",
            "$defs": {
                **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(26)},
                "d26": {"type": "object"},
            },
            "$ref": "#/$defs/d0",
        },
    ],
)
def test_a_schema_that_is_wrong_far_away_or_endless_is_refused(schema: dict[str, JSON]) -> None:
    with pytest.raises(DefinitionError):
        OutputSchema(schema)


def test_levels_that_multiply_are_refused() -> None:
    schema: dict[str, Any] = {"type": "object", "unevaluatedProperties": False}
    for _ in range(40):
        schema = {"type": "object", "allOf": [schema], "unevaluatedProperties": False}
    with pytest.raises(DefinitionError, match="unevaluated"):
        OutputSchema(schema)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"items": {"type": "integer"}}, ["x"] * MAX_WORK),
        ({"items": {"allOf": [{"type": "integer"}] * 1000}}, ["x"] * 10_000),
        ({"type": "integer"}, "x" * 10_000_000),
        ({"items": {"pattern": r"^(a|ab)*(?=c)"}}, ["ab" * 20] * 1000),
        ({"items": {"enum": [{"n": n} for n in range(200)]}}, [{"n": 199}] * 1000),
        ({"items": {"anyOf": [{"const": n} for n in range(100)]}}, [99] * 5000),
    ],
)
def test_what_would_take_too_long_is_passed_on(schema: JSON, data: JSON, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "toolrun.mcp")
    assert OutputSchema({"type": "object", "properties": {"x": schema}}).problem({"x": data}) is None
    assert "too large to be checked" in caplog.text


@pytest.mark.parametrize("columns", [2, 200])
def test_a_table_is_checked_however_many_columns_its_schema_has(columns: int) -> None:
    row: dict[str, JSON] = {"type": "object", "properties": {f"c{n}": {"type": "integer"} for n in range(columns)}}
    schema = OutputSchema({"type": "object", "properties": {"rows": {"type": "array", "items": row}}})
    rows: list[JSON] = [{"c0": n, "c1": n} for n in range(7_000)]
    assert schema.problem({"rows": rows}) is None
    assert schema.problem({"rows": [*rows, {"c0": "x"}]}) == "it does not match the schema"


def test_the_same_in_small_is_not() -> None:
    schema: JSON = {"items": {"pattern": r"^(a|ab)*(?=c)"}}
    assert OutputSchema({"type": "object", "properties": {"x": schema}}).problem({"x": ["ab"]}) is not None


def test_a_value_deeper_than_any_honest_one_is_passed_on() -> None:
    deep: JSON = {}
    for _ in range(10_000):
        deep = {"a": deep}
    recursive = OutputSchema({"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False})
    assert recursive.problem(deep) is None


def test_large_answers_that_are_wrong_are_told_briefly() -> None:
    schema = OutputSchema({"type": "object", "properties": {"x": {"items": {"type": "integer"}}}})
    assert schema.problem({"x": ["x"] * 20_000}) == "it does not match the schema"


def test_a_broken_promise_keeps_what_the_tool_said() -> None:
    error = broken_promise("missing 'degrees'", Content([{"type": "text", "text": "20 degrees"}], {"sky": "clear"}))
    assert "missing 'degrees'" in str(error)
    assert error.detail.endswith("20 degrees")
    assert error.side_effects is SideEffects.UNKNOWN
