"""How the parameters of a tool are described to a model."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from toolrun.schema import ArgumentSchema

Schema: TypeAlias = dict[str, Any]

ADD: Schema = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def obj(required: list[str] | None = None, /, **properties: Any) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def test_parameters_are_described_one_a_line() -> None:
    schema = obj(
        ["a"],
        a={"type": "integer", "description": "The first\n  number"},
        mode={"enum": ["fast", "slow"], "default": "fast", "description": "How"},
        tags={"type": "array", "items": {"type": ["string", "null"]}},
        at={"$ref": "#/$defs/point"},
        limit={"anyOf": [{"type": "integer"}, {"type": "null"}]} | {"default": None},
        fixed={"const": 3},
        free={},
    )
    schema["$defs"] = {"point": obj(["x"], x={"type": "number"}, y={"type": "number"})}
    assert ArgumentSchema(schema).describe().splitlines() == [
        "  a (integer, required): The first number",
        '  mode ("fast" | "slow", default "fast"): How',
        "  tags (array of (string | null))",
        "  at (object {x: number, y?: number})",
        "  limit (integer | null, default null)",
        "  fixed (3)",
        "  free (any)",
    ]


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, obj()])
def test_no_parameters_are_described_as_such(schema: Schema) -> None:
    assert ArgumentSchema(schema).describe() == "(no parameters)"


def test_parameters_from_references_and_combinations_are_described() -> None:
    schema: Schema = {
        "allOf": [{"$ref": "#/$defs/x"}, {"anyOf": [obj(["c"], c={"type": "boolean"})]}],
        "$defs": {"x": ADD},
    }
    assert ArgumentSchema(schema).describe() == "  a (integer, required)\n  b (integer, required)\n  c (boolean)"


def test_recursive_parameters_are_described_in_bounded_space() -> None:
    tree = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/tree"}} for _ in range(12)]}
    schema = obj(v={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": tree}}
    assert len(ArgumentSchema(schema).describe()) < 400
