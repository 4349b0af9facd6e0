"""Turns arguments that a client library has parsed back into the text that the model sent. Pure.

ChatOllama parses every string that looks like a JSON object or array, even where the tool takes a string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from toolrun.json import JSON, Schema
from toolrun.schema.value import local_reference, type_of

_MAX_DEPTH: Final = 16
_ALL_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def unparse(arguments: Mapping[str, JSON], schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The arguments, with objects and arrays as text where the schema takes strings and neither of the two."""
    root = dict(schema)
    unparsed = dict(arguments)
    for name, value in arguments.items():
        if isinstance(value, dict | list) and _takes_only_text(_schemas_of(root, name, root), root):
            unparsed[name] = _to_text(value)
    return unparsed


def _schemas_of(schema: JSON, name: str, root: Schema, depth: int = 0) -> list[JSON]:
    """Every subschema that describes the parameter."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return []
    properties = schema.get("properties")
    found = [properties[name]] if isinstance(properties, dict) and name in properties else []
    target = local_reference(root, schema.get("$ref"))
    inner = [target[1]] if target else []
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        inner += [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return found + [each for part in inner for each in _schemas_of(part, name, root, depth + 1)]


def _takes_only_text(schemas: list[JSON], root: Schema) -> bool:
    types = frozenset[str]().union(*(_types(schema, root, 0) for schema in schemas))
    return "string" in types and not types & {"object", "array"}


def _types(schema: JSON, root: Schema, depth: int) -> frozenset[str]:
    """The types that a value may have; all of them if the schema does not say."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return _ALL_TYPES
    given = schema.get("type")
    names = given if isinstance(given, list) else [given]
    types = frozenset(str(name) for name in names) if given is not None else _ALL_TYPES
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(options, list):
        types &= {type_of(option) for option in options}
    target = local_reference(root, schema.get("$ref"))
    if target:
        types &= _types(target[1], root, depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        if isinstance(parts, list) and parts:
            each = [_types(part, root, depth + 1) for part in parts]
            types &= frozenset.intersection(*each) if keyword == "allOf" else frozenset[str]().union(*each)
    return types


def _to_text(value: JSON) -> str:
    """JSON, or a Python literal where JSON would change the value: ChatOllama parses tuples and numeric keys, too."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        return text if json.loads(text) == value else repr(value)
    except TypeError:
        return repr(value)
