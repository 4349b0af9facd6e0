"""Schemas with slips are read as they were meant; all others stay as they are listed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.mcp.client.schema_slips import mend
from toolrun.schema.validator import CompiledSchema

NEWEST = "https://json-schema.org/draft/2020-12/schema"
OLDER = "http://json-schema.org/draft-07/schema#"
TEXT = {"type": "string"}
PLAIN: dict[str, Any] = {
    "type": "object",
    "$schema": NEWEST,
    "description": "Two points.",
    "properties": {
        "a": {"type": ["integer", "null"], "default": None, "enum": [1, None], "examples": [None]},
        "b": {"const": None, "title": "B"},
        "description": {"type": "string"},
        "title": {"type": "array", "items": TEXT, "prefixItems": [TEXT]},
        "required": {"type": "boolean"},
        "any": True,
    },
    "required": ["a", "required"],
    "additionalProperties": False,
    "x-own": {"description": 5},
}
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "required", "type", "anyOf", "description", "enum", "not", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def under(name: str, schema: object) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}}


@pytest.mark.parametrize(
    ("listed", "meant"),
    [
        (under("a", {"type": "string", "description": None}), under("a", TEXT)),
        (under("a", {"type": "string", "title": None, "description": 7}), under("a", TEXT)),
        ({"type": "object", "description": None, "required": None}, {"type": "object"}),
        ({"type": "object", "properties": None, "additionalProperties": None}, {"type": "object"}),
        (under("a", None), under("a", {})),
        (under("a", {"type": "string", "pattern": None, "minLength": None, "format": None}), under("a", TEXT)),
        ({"type": ["object"]}, {"type": "object"}),
        ({"type": "object", "required": ["a", "a"]}, {"type": "object", "required": ["a"]}),
        (under("a", {**TEXT, "required": True}), {**under("a", TEXT), "required": ["a"]}),
        (under("a", {**TEXT, "required": False}), under("a", TEXT)),
        (under("a", {"items": [TEXT, TEXT]}), under("a", {"prefixItems": [TEXT, TEXT]})),
        (
            under("a", {"items": [TEXT], "additionalItems": False}),
            under("a", {"prefixItems": [TEXT], "items": False}),
        ),
        (
            {"$schema": NEWEST, **under("a", {"items": [TEXT]})},
            {"$schema": NEWEST, **under("a", {"prefixItems": [TEXT]})},
        ),
        (under("a", {"anyOf": [{**TEXT, "description": None}]}), under("a", {"anyOf": [TEXT]})),
        ({"type": "object", "$defs": {"a": {"title": None}}}, {"type": "object", "$defs": {"a": {}}}),
        ({"type": "object", "properties": [], "required": {}}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": {"a": []}, "$defs": []}, {**under("a", {}), "$defs": {}}),
        ({"type": "object", "required": {"1": "a", "2": "b"}}, {"type": "object", "required": ["a", "b"]}),
        ({"type": "object", "required": "a"}, {"type": "object", "required": ["a"]}),
        ({"type": "object", "required": [None, "a"]}, {"type": "object", "required": ["a"]}),
        ({"type": "object", "required": [None]}, {"type": "object"}),
        (under("a", {**TEXT, "enum": None, "examples": None}), under("a", TEXT)),
        (under("a", {"type": "array", "items": []}), under("a", {"type": "array"})),
        (under("a", {"anyOf": [TEXT, None]}), under("a", {"anyOf": [TEXT, {"type": "null"}]})),
        (under("a", {"type": ["string", None]}), under("a", {"type": ["string", "null"]})),
        ({"type": ["object", "null"]}, {"type": "object"}),
        ({"type": "Object"}, {"type": "object"}),
        (under("a", {"type": "String"}), under("a", TEXT)),
        (under("a", {"type": "int"}), under("a", {"type": "integer"})),
        (under("a", {"type": "any"}), under("a", {})),
        (under("a", {"type": ""}), under("a", {})),
        (under("a", {"type": ["string", "any"]}), under("a", {})),
        (under("a", {"minimum": 1, "exclusiveMinimum": True}), under("a", {"exclusiveMinimum": 1})),
        (under("a", {"maximum": 1, "exclusiveMaximum": False}), under("a", {"maximum": 1})),
        (under("a", {"exclusiveMaximum": True}), under("a", {})),
        ({"type": "object", "additionalProperties": "false"}, {"type": "object", "additionalProperties": False}),
        ({"type": "object", "additionalProperties": "True"}, {"type": "object", "additionalProperties": True}),
        (under("a", {"items": {"items": [{"description": None}]}}), under("a", {"items": {"prefixItems": [{}]}})),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_slip_is_read_as_it_was_meant(listed: dict[str, Any], meant: dict[str, Any]) -> None:
    assert mend(listed) == meant
    CompiledSchema(mend(listed))


def test_a_schema_without_slips_stays_as_it_is() -> None:
    assert mend(PLAIN) == PLAIN
    tuples = {"$schema": OLDER, **under("a", {"items": [TEXT], "additionalItems": False})}
    assert mend(tuples) == tuples


@pytest.mark.parametrize(
    "part",
    [
        {"type": "colour"},
        {"required": [1]},
        {"required": 7},
        {"additionalProperties": "maybe"},
        {"type": ["colour", None]},
    ],
)
def test_what_may_mean_several_things_is_left_to_the_validator(part: dict[str, Any]) -> None:
    assert mend(under("a", part)) == under("a", part)


def test_what_is_listed_is_not_changed() -> None:
    listed = under("a", {**TEXT, "required": True, "description": None})
    mend(listed)
    assert listed == under("a", {**TEXT, "required": True, "description": None})


@given(st.dictionaries(st.sampled_from(["properties", "items", "required", "type", "$defs", "allOf"]), JSONS))
def test_mending_never_fails_and_once_is_enough(listed: dict[str, Any]) -> None:
    mended = mend(listed)
    assert mend(mended) == mended
