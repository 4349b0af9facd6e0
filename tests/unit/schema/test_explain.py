"""What is said about arguments that cannot be used."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from toolrun.schema import ArgumentSchema, Checked
from toolrun.schema.explain import explain

Schema: TypeAlias = dict[str, Any]

ADD: Schema = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def obj(required: list[str] | None = None, /, **properties: Any) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def check(schema: Any, arguments: object, *, strict: bool = False) -> Checked:
    return ArgumentSchema(schema).check(arguments, strict=strict)


def messages(schema: Any, arguments: object, *, strict: bool = False) -> list[str]:
    return [problem.message for problem in check(schema, arguments, strict=strict).problems]


def test_one_missing_parameter_has_exactly_this_text() -> None:
    assert explain(check(ADD, {"b": 1}).problems) == "Invalid parameters: missing 'a'"


def test_all_problems_are_told_at_once() -> None:
    schema = obj(["a"], a={}, b={"type": "integer"}, mode={"enum": ["fast", "slow"]})
    checked = check(schema, {"b": "x", "mode": "quick"})
    assert explain(checked.problems) == (
        "Invalid parameters: missing 'a'; 'b' must be integer, got \"x\" (string); "
        '\'mode\' must be one of "fast", "slow"; got "quick"'
    )
    assert [problem.path for problem in checked.problems] == ["a", "b", "mode"]


NULLABLE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
FIRST_50 = ", ".join(str(number) for number in range(50))
CLOSED = obj(name={}) | {"additionalProperties": False}
CIRCLE = obj(["kind", "radius"], kind={"const": "circle"}, radius={"type": "number"})
SQUARE = obj(["kind", "side"], kind={"const": "square"}, side={"type": "number"})


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": ["integer", "null"]}, "z", "'v' must be integer or null, got \"z\" (string)"),
        ({"type": "object"}, 1, "'v' must be object, got 1 (integer)"),
        ({"type": "string"}, 1.5, "'v' must be string, got 1.5 (number)"),
        ({"type": "string"}, None, "'v' must be string, got null (null)"),
        ({"type": "string"}, ["x" * 100, 1], "'v' must be string, got [\"" + "x" * 77 + "… (array)"),
        ({"enum": ["a"]}, 1, "'v' must be \"a\", got 1"),
        ({"enum": list(range(60))}, "x", f"'v' must be one of {FIRST_50}, … (60 in all); got \"x\""),
        ({"const": {"a": 1}}, 1, "'v' must be {\"a\": 1}, got 1"),
        ({"minimum": 1.5}, 1, "'v' must be at least 1.5, got 1"),
        ({"maximum": 1}, 2, "'v' must be at most 1, got 2"),
        ({"exclusiveMinimum": 1}, 1, "'v' must be greater than 1, got 1"),
        ({"exclusiveMaximum": 1}, 1, "'v' must be less than 1, got 1"),
        ({"multipleOf": 5}, 7, "'v' must be a multiple of 5, got 7"),
        ({"minLength": 3}, "é", "'v' must have at least 3 characters, got 1: \"é\""),
        ({"maxLength": 1}, "ab", "'v' must have at most 1 character, got 2: \"ab\""),
        ({"minItems": 1}, [], "'v' must have at least 1 item, got 0: []"),
        ({"maxItems": 1}, [1, 2], "'v' must have at most 1 item, got 2: [1, 2]"),
        ({"minProperties": 2}, {}, "'v' must have at least 2 properties, got 0: {}"),
        ({"maxProperties": 0}, {"a": 1}, "'v' must have at most 0 properties, got 1: {\"a\": 1}"),
        ({"pattern": "^a+$"}, "b", "'v' must match the pattern ^a+$, got \"b\""),
        ({"$id": "urn:as-sent", "uniqueItems": True}, [1, 1], "'v' must not hold the same item twice, got [1, 1]"),
        ({"contains": {"const": 1}}, [2], "'v' must hold at least 1 of {\"const\": 1}, got [2]"),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, 1], "'v' must hold at most 1 of {\"const\": 1}, got [1, 1]"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "'v[1]' is not allowed, got 2"),
        ({"not": {"type": "string"}}, "x", "'v' must not match {\"type\": \"string\"}, got \"x\""),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, "'v' has a name that must match the pattern ^a, got \"b\""),
        (False, 1, "'v' is not allowed, got 1"),
        ({"oneOf": [{}, {"minimum": 1}]}, 2, "'v' matches several of its forms and must match exactly one, got 2"),
        (NULLABLE, "z", "'v' must be integer or null, got \"z\" (string)"),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, 5, '\'v\' must be "a", "b" or null, got 5 (integer)'),
        ({"anyOf": [NULLABLE, {"type": "boolean"}]}, "z", "'v' must be integer, null or boolean, got \"z\" (string)"),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, 1, "'v' must be at least 3, got 1"),
        ({"anyOf": [CIRCLE, SQUARE]}, {"kind": "square", "side": "x"}, "'v.side' must be number, got \"x\" (string)"),
        ({"anyOf": [CIRCLE, SQUARE]}, {"kind": "square", "sidee": 1}, "missing 'v.side' (you sent 'v.sidee')"),
        ({"anyOf": [obj(["a"], a={}), obj(["b", "c"], b={})]}, {}, "missing 'v.a' or 'v.b' and 'v.c'"),
        (
            {"anyOf": [{"minimum": 3}, {"multipleOf": 2}]},
            1,
            "'v' must take one of its forms: 'v' must be at least 3, got 1, or 'v' must be a multiple of 2, got 1",
        ),
        (obj(x={"items": {"type": "boolean"}}), {"x": [True, 1]}, "'v.x[1]' must be boolean, got 1 (integer)"),
        (CLOSED, {"nmae": 1}, "unknown parameter 'v.nmae' (did you mean 'v.name'?)"),
        ({"additionalProperties": False}, {"x": 1}, "unknown parameter 'v.x'"),
        ({"unevaluatedProperties": False}, {"x": 1}, "unknown parameter 'v.x'"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "missing 'v.b'"),
        (obj(**{"a b": {"type": "null"}}), {"a b": 1}, "'v[\"a b\"]' must be null, got 1 (integer)"),
    ],
)  # fmt: skip
def test_a_problem_says_what_was_wanted_and_what_came(schema: Any, value: Any, expected: str) -> None:
    assert messages(obj(v=schema), {"v": value}) == [expected]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("qury", "missing 'query' (you sent 'qury')"),
        ("text", "missing 'query'; unknown parameter 'text'"),
    ],
)
def test_a_name_close_to_a_missing_one_is_mentioned(sent: str, expected: str) -> None:
    checked = check(obj(["query"], query={"type": "string"}), {sent: "x"})
    assert "; ".join(problem.message for problem in checked.problems) == expected
    assert checked.dropped == ()


def test_alternatives_of_the_root_are_explained() -> None:
    schema = obj(a={}, b={}) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert messages(schema, {}) == ["missing 'a' or 'b'"]


def test_many_problems_are_cut_and_counted() -> None:
    schema = obj(v={"type": "array", "items": {"type": "integer"}})
    found = messages(schema, {"v": ["x"] * 25})
    assert len(found) == 21
    assert found[-1] == "and 5 more"


def test_huge_arguments_are_explained_coarsely() -> None:
    schema = obj(["q"], q={}, v={"type": "array", "items": {"type": "integer"}}, w={"type": "integer"})
    found = messages(schema, {"v": [1] * 30_000 + ["x"], "w": 1})
    assert found[0] == "missing 'q'"
    assert found[1].startswith("'v' does not match its schema, got [1, 1, ")


def test_a_mistake_deep_in_a_recursive_schema_is_found() -> None:
    expression = {"$ref": "#/$defs/expression"}
    kinds = [obj(["op", "left", "right"], op={"const": op}, left=expression, right=expression) for op in "+-*/"]
    schema = obj(v=expression) | {"$defs": {"expression": {"anyOf": [*kinds, {"type": "integer"}]}}}
    value: Any = "x"
    for depth in range(30):
        value = {"op": "+-*/"[depth % 4], "left": 1, "right": value}
    assert messages(schema, {"v": value}) == [f"'v{'.right' * 30}' must be object or integer, got \"x\" (string)"]


def test_a_mistake_in_a_linked_list_is_found() -> None:
    node = obj(["k"], k={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
    value: Any = {"k": "x"}
    for _ in range(10):
        value = {"k": 1, "next": value}
    schema = obj(v={"$ref": "#/$defs/node"}) | {"$defs": {"node": node}}
    assert messages(schema, {"v": value}) == [f"'v{'.next' * 10}.k' must be integer, got \"x\" (string)"]


@pytest.mark.parametrize(
    "loop",
    [
        {"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/loop"}, {"type": "integer"}]},
        {"allOf": [{"$ref": "#/$defs/loop"}], "type": "integer"},
        {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/loop"}, "maxItems": n} for n in range(2, 9)]},
        {"$anchor": "loop", "anyOf": [{"type": "array", "items": {"$ref": "#loop"}}, {"type": "null"}]},
        {"$dynamicAnchor": "loop", "anyOf": [{"items": {"$dynamicRef": "#loop"}, "minItems": 1}, {"type": "null"}]},
    ],
    ids=["in place", "allOf", "overlapping", "anchor", "dynamic"],
)
@pytest.mark.parametrize("depth", [0, 1, 30])
def test_schemas_that_lead_back_to_themselves_are_explained_in_the_end(loop: Schema, depth: int) -> None:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    checked = check(obj(v={"$ref": "#/$defs/loop"}) | {"$defs": {"loop": loop}}, {"v": value, "other": 1})
    assert checked.problems == () or all(problem.message for problem in checked.problems)


@pytest.mark.parametrize(
    "pattern", [r"^(([a-z])+.)+[A-Z]([a-z])+$", r"^(?:a|a)*?(?!a)\b(?<!a)c", r"^(a|b|ab)*\1c$", r"(a*)*(?=z)\1b"]
)
def test_a_catastrophic_pattern_is_a_problem_and_not_a_hang(pattern: str) -> None:
    found = messages(obj(v={"type": "string", "pattern": pattern}), {"v": "ab" * 20 + "a" * 2000})
    assert len(found) == 1
    assert found[0].startswith(("'v' takes too long to match against its pattern", "'v' must match the pattern"))
