"""Any schema, any provider: what is sent is within what the provider takes, and leaves room for what the tool takes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ollama._types import ChatRequest

from providers.rules import anthropic_problem
from toolrun.clients.dialect import Offer, for_provider
from toolrun.clients.dialect.gemini import FORMATS, KEYWORDS

NAMES = st.sampled_from(["a", "b", "c", "kind", "filter[x]", "größe"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5)
Case = tuple[dict[str, Any], Any]
"""A schema, and a value that fits it, mostly."""


@st.composite
def scalars(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "null", "enum", "const", "any"]))
    match kind:
        case "string":
            text = draw(TEXTS)
            extra: dict[str, Any] = draw(st.sampled_from([{}, {"maxLength": 9}, {"format": "date"}, {"default": ""}]))
            return {"type": "string", **extra}, text
        case "integer" | "number":
            number = draw(st.integers(-9, 9))
            extra = draw(
                st.sampled_from([{}, {"minimum": -9, "maximum": 9}, {"exclusiveMinimum": -10}, {"default": 0}])
            )
            return {"type": kind, **extra}, number
        case "boolean":
            return {"type": "boolean"}, draw(st.booleans())
        case "null":
            return {"type": "null"}, None
        case "enum":
            options = draw(st.lists(st.integers(0, 3) | st.sampled_from(["", "x", "y", None, True]), min_size=1))
            return {"enum": options}, draw(st.sampled_from(options))
        case "const":
            value = draw(st.sampled_from(["x", 1, None]))
            return {"const": value}, value
        case _:
            return {}, draw(st.sampled_from([1, "x", [1], {"a": 1}]))


def nested(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    return objects(inner) | lists(inner) | unions(inner) | described(inner)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    parts = draw(st.dictionaries(NAMES, inner, max_size=3))
    required = draw(st.lists(st.sampled_from(list(parts)), unique=True)) if parts else []
    given_names = [name for name in parts if name in required or draw(st.booleans())]
    schema: dict[str, Any] = {"type": "object", "properties": {name: part[0] for name, part in parts.items()}}
    if required:
        schema["required"] = required
    value = {name: parts[name][1] for name in given_names}
    match draw(st.sampled_from(["", "closed", "map", "split"])):
        case "closed":
            schema["additionalProperties"] = False
        case "map":
            schema["additionalProperties"] = {"type": "integer"}
            value["other"] = 5
        case "split":
            schema = {"allOf": [schema, {"type": "object", "minProperties": 0}]}
    return schema, value


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    schema, value = draw(inner)
    match draw(st.sampled_from(["items", "prefix", "bare"])):
        case "items":
            return {"type": "array", "items": schema, "minItems": 0}, draw(st.sampled_from([[], [value]]))
        case "prefix":
            return {"type": "array", "prefixItems": [schema, {"type": "string"}]}, [value, "x"]
        case _:
            return {"type": "array"}, [value]


@st.composite
def unions(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    cases = draw(st.lists(inner, min_size=1, max_size=3))
    keyword = draw(st.sampled_from(["anyOf", "oneOf"]))
    return {keyword: [schema for schema, _ in cases]}, draw(st.sampled_from([value for _, value in cases]))


@st.composite
def described(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    schema, value = draw(inner)
    match draw(st.sampled_from(["text", "all", "any"])):
        case "text":
            return {**schema, "description": "About it.", "title": "It"}, value
        case "all":
            return {"allOf": [schema], "default": value}, value
        case _:
            return {"anyOf": [{"minLength": 0}, {"minimum": -99}], **schema}, value


CASES = st.recursive(scalars(), nested, max_leaves=8)


@st.composite
def roots(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Schemas of arguments, with references, and arguments that fit."""
    schema, value = draw(objects(CASES))
    if draw(st.booleans()):
        schema = {"anyOf": [schema, draw(objects(CASES))[0]]}
    if draw(st.booleans()):
        schema = {"$ref": "#/$defs/root", "$defs": {"root": schema}}
    return schema, value


def offered(schema: dict[str, Any], provider: str) -> Offer:
    return for_provider([SimpleNamespace(name="probe", description="Try.", schema=schema)], provider)


def arguments_schema(tool: Any) -> dict[str, Any]:
    found = tool["function"]["parameters"] if "function" in tool else tool.get("input_schema", tool.get("parameters"))
    return found or {"type": "object"}


def gemini_problem(schema: Any, path: str = "") -> str | None:
    """Why Gemini would refuse a schema."""
    if unknown := schema.keys() - KEYWORDS:
        return f"{path}: unknown {unknown}"
    if "anyOf" in schema:
        if len(schema) > 1:
            return f"{path}: something beside anyOf"
        return next(filter(None, (gemini_problem(part, f"{path}|") for part in schema["anyOf"])), None)
    kind = schema.get("type")
    if kind not in ("object", "array", "string", "integer", "number", "boolean"):
        return f"{path}: the type is {kind}"
    if "format" in schema and schema["format"] not in FORMATS.get(kind, ()):
        return f"{path}: format {schema['format']}"
    if "enum" in schema and not (kind == "string" and all(isinstance(it, str) and it for it in schema["enum"])):
        return f"{path}: options {schema['enum']} of {kind}"
    if kind == "array":
        return gemini_problem(schema["items"], f"{path}[]") if "items" in schema else f"{path}: no items"
    if kind == "object" and not schema.get("properties"):
        return f"{path}: no properties"
    if set(schema.get("required", [])) - set(schema.get("properties", {})):
        return f"{path}: an unknown name is required"
    parts = schema.get("properties", {}).items()
    return next(filter(None, (gemini_problem(part, f"{path}.{name}") for name, part in parts)), None)


@given(roots())
def test_the_package_of_ollama_drops_nothing(case: tuple[dict[str, Any], Any]) -> None:
    tools = offered(case[0], "ollama").tools
    request = ChatRequest(model="qwen3:0.6b", tools=tools)  # type: ignore[arg-type]
    assert json.loads(request.model_dump_json(exclude_none=True))["tools"] == tools


@given(roots())
def test_gemini_takes_it(case: tuple[dict[str, Any], Any]) -> None:
    tool: Any = offered(case[0], "gemini").tools[0]
    if "parameters" in tool:
        assert gemini_problem(tool["parameters"]) is None


@given(roots())
def test_anthropic_takes_it(case: tuple[dict[str, Any], Any]) -> None:
    tools = offered(case[0], "anthropic").tools
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tools": tools}
    assert anthropic_problem(body) is None
    assert jsonschema_rs.meta.is_valid(arguments_schema(tools[0]))


@given(roots())
def test_openai_takes_it(case: tuple[dict[str, Any], Any]) -> None:
    schema = arguments_schema(offered(case[0], "openai").tools[0])
    assert schema["type"] == "object"
    assert not schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"}
    assert jsonschema_rs.meta.is_valid(schema)


@pytest.mark.parametrize("provider", ["ollama", "anthropic", "openai"])
@given(roots())
def test_what_the_tool_takes_fits_the_schema_that_is_sent(provider: str, case: tuple[dict[str, Any], Any]) -> None:
    """A model that keeps to the simplified schema can say everything, but for a null instead of nothing."""
    schema, arguments = case
    assume(jsonschema_rs.Draft202012Validator(schema).is_valid(arguments))
    offer = offered(schema, provider)
    sent = arguments_schema(offer.tools[0])
    names = {own: name for name in sent["properties"] for own in offer.arguments_of("probe", {name: 0})}
    said = {names.get(name, name): value for name, value in arguments.items()}
    if provider == "ollama":
        said = {name: value for name, value in said.items() if value is not None}
        sent = {**sent, "required": [name for name in sent.get("required", []) if name in said]}
    assert jsonschema_rs.Draft202012Validator(sent).is_valid(said), sent


@given(roots(), st.sampled_from(["ollama", "anthropic", "openai", "gemini", "mcp"]))
def test_the_same_tool_is_always_offered_in_the_same_way(case: tuple[dict[str, Any], Any], provider: str) -> None:
    before = json.dumps(case[0])
    assert offered(case[0], provider) == offered(json.loads(before), provider)
    assert json.dumps(case[0]) == before
