"""The quick look at types: it says what the validator says, and asks it only where types do not decide."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import Schema
from toolrun.schema import ArgumentSchema
from toolrun.schema.exact_type import exact_validator

SCALARS = ("string", "integer", "number", "boolean")
PARAMETERS = st.sampled_from([{"type": it} for it in SCALARS]) | st.sampled_from(
    [{"type": "array", "items": {"type": it}, "description": "some"} for it in SCALARS]
)
VALUES = (
    st.text(max_size=3)
    | st.sampled_from(["\ud800", "é", ""])
    | st.integers(-5, 5)
    | st.sampled_from([10**9, -(10**9), 10**9 - 1, 2**63, 10**400])
    | st.floats()
    | st.booleans()
    | st.none()
)


def never(arguments: object) -> bool:
    raise AssertionError(f"asked the validator about {arguments!r}")


def objects(properties: dict[str, Any], required: list[Any]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def fast(schema: Schema) -> Any:
    return exact_validator(schema, never)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ({"type": "string"}, "plain"),
        ({"type": "integer"}, 999_999_999),
        ({"type": "integer"}, -999_999_999),
        ({"type": "number", "title": "N"}, 1.5),
        ({"type": "boolean", "default": False}, True),
        ({"type": "array", "items": {"type": "integer"}}, [1, -2, 999_999_999]),
        ({"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ({"type": "array", "items": {"type": "number"}}, [0.5]),
        ({"type": "array", "items": {"type": "boolean"}}, [True, False]),
        ({"type": "array", "items": {"type": "boolean"}}, []),
        ({"type": "array", "items": {"type": "integer"}}, [7] * 1000),
    ],
)
def test_where_types_decide_the_validator_is_not_asked(parameter: Schema, value: object) -> None:
    assert fast(objects({"p": parameter}, ["p"]))({"p": value}) is True
    assert fast(objects({"p": parameter}, []))({"p": value}) is True


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ({"type": "string"}, "é"),
        ({"type": "integer"}, 10**9),
        ({"type": "integer"}, -(10**9)),
        ({"type": "integer"}, True),
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, math.nan),
        ({"type": "number"}, 1),
        ({"type": "string", "minLength": 1}, "a"),
        ({"type": ["string", "null"]}, "a"),
        ({"type": "array"}, [1]),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2.0]),
        ({"type": "array", "items": {"type": "integer"}}, [1, True]),
        ({"type": "array", "items": {"type": "integer"}}, [1, 10**9]),
        ({"type": "array", "items": {"type": "integer"}}, [1, -(10**9)]),
        ({"type": "array", "items": {"type": "integer"}}, [7] * 1001),
        ({"type": "array", "items": {"type": "string"}}, ["a", "\ud800"]),
        ({"type": "array", "items": {"type": "number"}}, [0.5, math.inf]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [1]),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}}, [1]),
    ],
)
@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("required", [["q"], ["p", "q"]])
def test_elsewhere_its_answer_counts(parameter: Schema, value: object, required: list[Any], answer: bool) -> None:
    schema = objects({"p": parameter, "q": {"type": "string"}}, required)
    asked: list[object] = []

    def is_valid(arguments: object) -> bool:
        asked.append(arguments)
        return answer

    validator = exact_validator(schema, is_valid)
    assert validator is not None
    assert validator({"q": "x", "p": value}) is answer
    assert asked == [{"q": "x", "p": value}]


def test_all_that_is_required_must_be_there_and_nothing_else() -> None:
    validator = fast(objects({"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "string"}}, ["a", "b"]))
    assert validator({"a": 1, "b": "x"})
    assert validator({"b": "x", "a": 1})
    assert validator({"a": 1, "b": "x", "c": "y"})
    lacking: list[object] = [{}, {"a": 1}, {"a": 1, "c": "y"}, {"c": "y"}, [], None, "{}"]
    assert not any(map(validator, lacking))
    for other in ({"other": 1}, {str(it): it for it in range(10)}):
        with pytest.raises(AssertionError, match="asked the validator"):
            validator({"a": 1, "b": "x", **other})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        objects({"p": {"enum": [1]}}, []),
        objects({"p": {"type": "integer"}}, []) | {"minProperties": 1},
        objects({"p": {"type": "integer"}}, []) | {"required": "p"},
        objects({"p": True}, []),
    ],
)
def test_a_schema_in_which_more_than_types_decides_has_no_quick_look(schema: Schema) -> None:
    assert fast(schema) is None


@pytest.mark.parametrize("name", ["'", '"""', "\\", "{0}", "\n", "\ud800", "\x00", "] or True #", "arguments"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    validator = fast(objects({name: {"type": "integer"}, "q": {"type": "string"}}, [name, "q"]))
    assert validator({name: 1, "q": "x"}) is True
    assert validator({name + "x": 1, "q": "x"}) is False


@given(
    st.dictionaries(st.sampled_from("abc"), PARAMETERS, min_size=1),
    st.sets(st.sampled_from("abc")),
    st.dictionaries(st.sampled_from("abcd"), VALUES | st.lists(VALUES, max_size=3)),
)
def test_it_says_what_the_validator_says(
    properties: dict[str, Any], required: set[str], arguments: dict[str, Any]
) -> None:
    schema = ArgumentSchema(objects(properties, sorted(required)))
    assert schema.fast_validator()(arguments) is schema.is_valid(arguments)
