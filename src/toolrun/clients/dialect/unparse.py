"""Arguments as the model sent them, where a client library has changed them on the way. Pure.

ChatOllama parses every argument that is text and looks like a JSON object or list, also where the tool wants the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from toolrun.json import JSON, Schema
from toolrun.schema.value import local_reference, type_of

_MAX_DEPTH: Final = 16
_ALL: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def restore(arguments: Mapping[str, JSON], schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The arguments with text again where the schema takes text and neither an object nor a list."""
    root = dict(schema)
    restored = dict(arguments)
    for name, value in arguments.items():
        if isinstance(value, dict | list) and _is_text(_parameter(root, name, root), root):
            restored[name] = _text(value)
    return restored


def _parameter(schema: JSON, name: str, root: Schema, depth: int = 0) -> list[JSON]:
    """All that the schema says about a parameter, wherever it does."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return []
    properties = schema.get("properties")
    found = [properties[name]] if isinstance(properties, dict) and name in properties else []
    target = local_reference(root, schema.get("$ref"))
    inner = [target[1]] if target else []
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        inner += [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return found + [each for part in inner for each in _parameter(part, name, root, depth + 1)]


def _is_text(schemas: list[JSON], root: Schema) -> bool:
    types = frozenset[str]().union(*(_types(schema, root, 0) for schema in schemas))
    return "string" in types and not types & {"object", "array"}


def _types(schema: JSON, root: Schema, depth: int) -> frozenset[str]:
    """The types that a value may have; all of them if that cannot be told."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return _ALL
    given = schema.get("type")
    names = given if isinstance(given, list) else [given]
    types = frozenset(str(name) for name in names) if given is not None else _ALL
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


def _text(value: JSON) -> str:
    """JSON; what came of a Python literal and is none (a tuple, a number as a key) is written as that again."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        return text if json.loads(text) == value else repr(value)
    except TypeError:
        return repr(value)
