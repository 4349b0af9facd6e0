"""Which schemas can be used, and what is said about the others."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest

from toolrun.errors import DefinitionError
from toolrun.schema import ArgumentSchema

Schema: TypeAlias = dict[str, Any]

ADD: Schema = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def obj(required: list[str] | None = None, /, **properties: Any) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"title": "ping", "description": "No parameters"},
        {"properties": {"a": {}}},
        {"type": ["object"]},
        {"$ref": "#/$defs/x", "$defs": {"x": ADD}},
        {"anyOf": [ADD, obj(q={"type": "string"})]},
        {"$schema": "https://example.org/own-dialect", **ADD},
        {"$schema": 7, **ADD},
        MappingProxyType({"type": "object", "properties": MappingProxyType({"a": MappingProxyType({})})}),
        obj(a={"enum": ("x", "y")}),
        obj(**{"$ref": {"type": "string"}, "pattern": {"type": "string"}}),
        obj(a={"$ref": "#named"}) | {"$defs": {"n": {"$anchor": "named", "type": "integer"}}},
        obj(a={"$ref": "https://example.org/n"}) | {"$defs": {"n": {"$id": "https://example.org/n"}}},
        obj(a={"$ref": "#"}),
        obj(a={"minimum": 10**30}),
        {"$schema": DRAFT_4, **obj(a={"minimum": 3, "exclusiveMinimum": True})},
    ],
    ids=str,
)
def test_these_schemas_are_accepted(schema: Any) -> None:
    assert ArgumentSchema(schema).schema is schema


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (None, "must be a JSON object"),
        ([], "must be a JSON object"),
        ({"type": "string"}, "the root of the schema must be an object"),
        ({"type": ["string", "null"]}, "the root of the schema must be an object"),
        ({"a": {"type": "integer"}}, 'such as {"type": "object", "properties": {…}}'),
        (obj(a={"type": "int"}), "'properties.a.type' must be"),
        (obj(a=5), "'properties.a' must be boolean or object, got 5"),
        ({"type": "object", "required": "a"}, "'required' must be array"),
        (obj(a={"minimum": 3, "exclusiveMinimum": True}), "'properties.a.exclusiveMinimum' must be number"),
        (obj(a={"pattern": "("}), "a pattern that cannot be used"),
        (obj(a={"$ref": "http://example.org/x"}), "refers to 'http://example.org/x', which is outside of it"),
        (obj(a={"$ref": "file:///etc/passwd"}), "refers to 'file:///etc/passwd', which is outside of it"),
        (obj(a={"$ref": "other.json"}), "refers to 'other.json', which is outside of it"),
        (obj(a={"$ref": "#/$defs/nope"}), "leads nowhere"),
        (obj(a={"$ref": "#nope"}), "leads nowhere"),
        (obj(a={"default": math.nan}), "holds NaN"),
        (obj(a={"enum": {1, 2}}), "holds a set"),
        (obj(a={"default": "\ud800"}), "not valid Unicode"),
        ({"type": "object", 1: 2}, "has the key 1"),
        ({"type": "object", "description": "x" * 1_000_001}, "more than 1,000,000 characters"),
        (obj(a={"enum": list(range(100_000))}), "more than 100,000 parts"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_schemas_are_refused_with_what_is_wrong(schema: Any, complaint: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ArgumentSchema(schema)
    assert complaint in str(caught.value)


def bomb(link: str) -> Schema:
    """2²⁶ schemas in 26 levels of two references each."""
    references = {"pointer": "#/$defs/d{}", "anchor": "#a{}", "id": "https://example.org/d{}"}[link]
    names = {"pointer": {}, "anchor": {"$anchor": "a{}"}, "id": {"$id": "https://example.org/d{}"}}[link]
    levels = {
        f"d{i}": {key: name.format(i) for key, name in names.items()}
        | ({"allOf": [{"$ref": references.format(i + 1)}] * 2} if i < 26 else {"type": "object"})
        for i in range(27)
    }
    return {"type": "object", "$ref": references.format(0), "$defs": levels}


def shared(levels: int) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "allOf": [schema, schema]}
    return schema


def nested(levels: int, start: Any) -> Any:
    for _ in range(levels):
        start = {"properties": {"a": start}}
    return start


def itself() -> Schema:
    schema: Schema = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


CHAIN: Schema = {"type": "object", "$ref": "#/$defs/d0"}
CHAIN["$defs"] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(2000)} | {"d2000": {}}


@pytest.mark.parametrize(
    "schema",
    [
        bomb("pointer"),
        bomb("anchor"),
        bomb("id"),
        obj(a=bomb("pointer") | {"$id": "https://example.org/inner"}),
        shared(26),
        nested(60, {}) | {"type": "object"},
        {"type": "object", "default": json.loads("[" * 500 + "]" * 500)},
        itself(),
        CHAIN,
    ],
    ids=["pointers", "anchors", "ids", "inner", "shared", "deep", "deep default", "holds itself", "chain"],
)
def test_schemas_that_are_bombs_are_refused(schema: Schema) -> None:
    with pytest.raises(DefinitionError):
        ArgumentSchema(schema)


def test_the_draft_that_a_schema_names_is_used() -> None:
    schema = obj(a={"minimum": 3, "exclusiveMinimum": True}) | {"$schema": DRAFT_4}
    assert not ArgumentSchema(schema).is_valid({"a": 3})
    assert ArgumentSchema(schema).is_valid({"a": 4})


@pytest.mark.parametrize("draft", [DRAFT_7, "https://json-schema.org/draft/2020-12/schema"])
def test_formats_are_not_asserted(draft: str) -> None:
    assert ArgumentSchema({"$schema": draft, **obj(a={"format": "date"})}).is_valid({"a": "tomorrow"})


def test_later_changes_of_the_schema_have_no_effect() -> None:
    given_schema = copy.deepcopy(ADD)
    schema = ArgumentSchema(given_schema)
    given_schema["properties"]["a"]["type"] = "string"
    assert schema.check({"a": "1", "b": 2}).arguments == {"a": 1, "b": 2}


def test_importing_the_module_loads_no_validator() -> None:
    code = "import sys, toolrun.schema; print({'jsonschema_rs', 'orjson'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "set()"


def nested_unevaluated(levels: int, keyword: str) -> Schema:
    schema: Schema = {"type": "object", "unevaluatedProperties": False}
    for _ in range(levels):
        below = {keyword: [schema] if keyword == "allOf" else {"a": schema} if keyword == "properties" else schema}
        schema = {"type": "object", **below, "unevaluatedProperties": False}
    return schema


@pytest.mark.parametrize("keyword", ["allOf", "if", "not"])
def test_levels_of_unevaluated_properties_are_refused_before_they_multiply(keyword: str) -> None:
    ArgumentSchema(nested_unevaluated(3, keyword))
    with pytest.raises(DefinitionError, match="more than 4 levels of 'unevaluatedProperties'"):
        ArgumentSchema(nested_unevaluated(30, keyword))


def test_levels_of_unevaluated_properties_are_found_behind_references() -> None:
    levels: Schema = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}", "unevaluatedProperties": False} for n in range(30)}
    with pytest.raises(DefinitionError, match="more than 4 levels of 'unevaluatedProperties'"):
        ArgumentSchema({"type": "object", "$ref": "#/$defs/d0", "$defs": {**levels, "d30": {}}})


def test_objects_within_objects_may_all_have_unevaluated_properties() -> None:
    schema = ArgumentSchema(nested_unevaluated(30, "properties"))
    assert schema.is_valid({"a": {"a": {}}})
    assert not schema.is_valid({"a": {"a": {"b": 1}}})
    tree: Schema = {"type": "object", "properties": {"next": {"$ref": "#"}}, "unevaluatedProperties": False}
    assert ArgumentSchema(tree).is_valid({"next": {"next": {"next": {"next": {"next": {"next": {}}}}}}})
