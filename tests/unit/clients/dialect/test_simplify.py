"""What becomes of a parameter for each provider, case by case."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from toolrun.clients.dialect import Offer, for_provider

POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}
TREE = {"type": "object", "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {}}}}
TREE["properties"]["kids"]["items"] = {"$ref": "#/$defs/tree"}  # type: ignore[index]
CIRCLE = {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]}
BOX = {"properties": {"kind": {"const": "box"}, "side": {"type": "number"}}, "required": ["kind", "side"]}


def offer(schema: dict[str, Any], provider: str, name: str = "probe") -> Offer:
    before = copy.deepcopy(schema)
    made = for_provider([SimpleNamespace(name=name, description="Try.", schema=schema)], provider)
    assert schema == before, "the tool's own schema was changed"
    return made


def arguments(schema: dict[str, Any], provider: str) -> Any:
    """The schema of the arguments that the provider gets."""
    tool: Any = offer(schema, provider).tools[0]
    return tool["function"]["parameters"] if "function" in tool else tool.get("input_schema", tool.get("parameters"))


def parameter(schema: Any, provider: str, *, required: bool = False) -> Any:
    """What the provider gets of one parameter."""
    root = {
        "type": "object",
        "properties": {"it": schema},
        "required": ["it"] if required else [],
        "$defs": {"point": POINT, "tree": TREE},
    }
    return arguments(root, provider)["properties"]["it"]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string", "description": "A name."}, {"type": "string", "description": "A name."}),
        ({"type": "integer", "title": "N", "x-order": 1}, {"type": "integer"}),
        ({"type": "integer", "minimum": 0, "maximum": 9}, {"type": "integer", "description": "0 to 9"}),
        (
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "description": "Litres."},
            {"type": "number", "description": "Litres. (more than 0; a multiple of 0.5)"},
        ),
        (
            {"type": "string", "minLength": 1, "maxLength": 1, "pattern": "^[a-z]$"},
            {"type": "string", "description": "1 character; has to match ^[a-z]$"},
        ),
        ({"type": "string", "format": "date"}, {"type": "string", "description": "format date"}),
        ({"type": "string", "default": "x"}, {"type": "string", "description": 'default "x"'}),
        (
            {"type": "integer", "default": 7, "description": "Days; the default is 7."},
            {"type": "integer", "description": "Days; the default is 7."},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, {"type": "string"}),
        ({"type": ["string", "null"], "description": "A."}, {"type": "string", "description": "A."}),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"]}),
        ({"oneOf": [{"const": "a"}, {"const": 2}]}, {"type": ["string", "integer"], "enum": ["a", 2]}),
        (
            {"oneOf": [{"const": "a", "description": "All"}, {"const": "n", "description": "None"}]},
            {"type": "string", "enum": ["a", "n"], "description": '"a": All; "n": None'},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["string", "integer"]}),
        (
            {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "all"}]},
            {"type": ["integer", "string"], "description": 'integer (at least 1) | "all"'},
        ),
        ({"$ref": "#/$defs/point"}, {"type": "object", "description": "{x: integer, y?: integer}"}),
        (
            {"allOf": [{"$ref": "#/$defs/point"}], "description": "Where"},
            {"type": "object", "description": "Where ({x: integer, y?: integer})"},
        ),
        (
            {"type": "array", "items": {"$ref": "#/$defs/point"}, "minItems": 1},
            {"type": "array", "items": POINT, "description": "at least 1 item"},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "description": "{any name: string}"},
        ),
        (
            {"oneOf": [CIRCLE, BOX], "description": "A shape."},
            {
                "type": "object",
                "description": 'A shape. ({kind: "circle", radius: number} | {kind: "box", side: number})',
            },
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            {"type": ["string", "array"], "items": {"type": "string"}, "description": "string | array of string"},
        ),
        (
            {"$ref": "#/$defs/tree"},
            {"type": "object", "description": "{name?: string, kids?: array of object (the same form again)}"},
        ),
        (True, {}),
    ],
)
def test_ollama_gets_a_parameter_in_the_terms_that_its_package_sends(schema: Any, sent: dict[str, Any]) -> None:
    assert parameter(schema, "ollama") == sent


def test_a_parameter_that_must_be_given_but_may_be_null_says_so() -> None:
    schema = {"type": ["integer", "null"]}
    assert parameter(schema, "ollama", required=True) == {"type": "integer", "description": "may be null"}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (
            {"type": "integer", "minimum": 0, "default": 5},
            {"type": "integer", "minimum": 0, "description": "default 5"},
        ),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": "format uri"}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "one of 1 | 2"}),
        ({"enum": ["", "a"]}, {"type": "string", "description": 'one of "" | "a"'}),
        ({"$ref": "#/$defs/point"}, POINT),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (
            {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}, {"type": "integer"}], "description": "A."},
            {
                "anyOf": [
                    {"type": "string", "minLength": 2, "nullable": True, "description": "A."},
                    {"type": "integer", "nullable": True},
                ]
            },
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels."},
            {"type": "string", "description": "Labels. (JSON text of {any name: string})"},
        ),
        (
            {"oneOf": [CIRCLE, BOX]},
            {
                "type": "object",
                "properties": {
                    "kind": {"type": "string", "enum": ["circle", "box"]},
                    "radius": {"type": "number"},
                    "side": {"type": "number"},
                },
                "required": ["kind"],
                "description": 'one of: {kind: "circle", radius} or {kind: "box", side}',
            },
        ),
    ],
)
def test_gemini_gets_a_parameter_in_the_terms_of_its_schemas(schema: Any, sent: dict[str, Any]) -> None:
    assert parameter(schema, "gemini") == sent


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_plain_schema_goes_to_anthropic_and_openai_as_it_is(provider: str) -> None:
    root = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}, "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "$defs": {"tree": TREE},
    }
    assert arguments(root, provider) == root
    assert not offer(root, provider).report


@pytest.mark.parametrize("provider", ["anthropic", "openai", "ollama", "gemini"])
def test_alternatives_at_the_root_become_one_object_and_a_sentence(provider: str) -> None:
    made = offer({"oneOf": [{"$ref": "#/$defs/c"}, BOX], "$defs": {"c": CIRCLE}}, provider)
    sentence = 'one of: {kind: "circle", radius} or {kind: "box", side}'
    tool: Any = made.tools[0].get("function", made.tools[0])
    assert tool["description"] == f"Try.\nArguments: {sentence}."
    assert tool.get("input_schema", tool.get("parameters")) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["circle", "box"]},
            "radius": {"type": "number"},
            "side": {"type": "number"},
        },
        "required": ["kind"],
    }
    assert [(it.path, it.what, it.where) for it in made.report] == [("", sentence, "description of the tool")]


@pytest.mark.parametrize("provider", ["anthropic", "openai", "ollama", "gemini"])
def test_one_of_two_parameters_is_asked_for_in_words(provider: str) -> None:
    names: dict[str, Any] = {"a": {"type": "string"}, "b": {"type": "string"}}
    made = offer({"type": "object", "properties": names, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, provider)
    tool: Any = made.tools[0].get("function", made.tools[0])
    assert tool["description"] == "Try.\nArguments: needs a or b."
    assert tool.get("input_schema", tool.get("parameters"))["properties"] == names


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_old_drafts_are_written_as_the_present_one(provider: str) -> None:
    old = {"type": "array", "items": [{"type": "number", "minimum": 0, "exclusiveMinimum": True}]}
    new = {"type": "array", "prefixItems": [{"type": "number", "exclusiveMinimum": 0}], "items": {}}
    assert parameter(old, provider) == new


def test_openai_gets_items_in_every_list() -> None:
    assert parameter({"type": "array"}, "openai") == {"type": "array", "items": {}}
    assert parameter({"type": "array"}, "anthropic") == {"type": "array"}


def test_gemini_gets_no_parameters_where_there_are_none() -> None:
    tool = offer({"type": "object", "properties": {}}, "gemini").tools[0]
    assert tool == {"name": "probe", "description": "Try."}


def test_a_schema_that_grows_without_end_is_cut() -> None:
    twice: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 40):
        part = {"$ref": f"#/$defs/d{level - 1}"}
        twice[f"d{level}"] = {"type": "object", "properties": {"a": part, "b": part}}
    made = offer({"type": "object", "properties": {"it": {"$ref": "#/$defs/d39"}}, "$defs": twice}, "ollama")
    assert len(str(made.tools[0])) < 3000
    assert [it.where for it in made.report] == ["left out: too large", "description"]


def test_the_report_says_what_went_where() -> None:
    root = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "default": 3},
            "s": {"type": ["string", "null"]},
            "t": {"$ref": "#/$defs/tree"},
            "u": {"$ref": "https://example.org/other.json"},
        },
        "$defs": {"tree": TREE},
    }
    report = [(it.tool, it.path, it.what, it.where) for it in offer(root, "ollama").report]
    assert sorted(report) == [
        ("probe", "n", "at least 0", "description"),
        ("probe", "n", "default 3", "description"),
        ("probe", "s", "null", "left out: the parameter is optional"),
        ("probe", "t", "{name?: string, kids?: array of object (the same form again)}", "description"),
        ("probe", "t.kids[]", "another level of tree", "left out: recursive"),
        ("probe", "u", "$ref https://example.org/other.json", "left out: outside the schema"),
    ]
