"""Slips in the schemas that servers list, mended where only one thing can be meant. Pure.

Generators write `description: null` for a text that is not there, and servers copy the form of an older draft without
naming it. Taken by the letter such a schema is invalid, and its tool would be lost. What is mended:

| listed | read as |
|---|---|
| `null` for a keyword, or for the schema of a property | nothing; a property that takes anything |
| `description`, `title` that are no text | nothing |
| `required` with a name twice | the name once |
| `required: true` in a property, as in draft 3 | the name in `required` of the object |
| `type: ["object"]` at the root | `type: "object"` |
| a list as `items`, without `$schema` or with 2020-12's | `prefixItems`; `additionalItems` becomes `items` |

Everything else stays as it is listed, and the validator judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEPEST: Final = 100
"""Levels. The validator refuses what is deeper."""
_VALUES: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords that hold values, in which `null` is one."""
_TEXTS: Final = frozenset({"description", "title"})
_ONE: Final = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords that hold a schema."""
_SEVERAL: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""
_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by name."""
_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"


def mend(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as it was meant."""
    draft = schema.get("$schema")
    is_newest = not isinstance(draft, str) or draft.removesuffix("#") == _NEWEST
    mended = _schema(schema, is_newest, 0)
    if mended.get("type") == ["object"]:
        mended["type"] = "object"
    return mended


def _schema(schema: Mapping[str, Any], is_newest: bool, depth: int) -> dict[str, Any]:
    mended: dict[str, Any] = {}
    for key, value in schema.items():
        is_slip = (value is None and key not in _VALUES) or (key in _TEXTS and not isinstance(value, str))
        if not is_slip:
            mended[key] = _part(key, value, is_newest, depth)
    if is_newest and isinstance(mended.get("items"), list) and "prefixItems" not in mended:
        mended["prefixItems"] = mended.pop("items")
        if "additionalItems" in mended:
            mended["items"] = mended.pop("additionalItems")
    _mend_required(mended)
    return mended


def _part(key: str, value: Any, is_newest: bool, depth: int) -> Any:
    if depth >= _DEEPEST:
        return value
    if key in _ONE and isinstance(value, Mapping):
        return _schema(value, is_newest, depth + 1)
    if key in _SEVERAL and isinstance(value, list):
        return [_schema(it, is_newest, depth + 1) if isinstance(it, Mapping) else it for it in value]
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _named(it, is_newest, depth + 1) for name, it in value.items()}
    return value


def _named(schema: Any, is_newest: bool, depth: int) -> Any:
    if schema is None:
        return {}
    return _schema(schema, is_newest, depth) if isinstance(schema, Mapping) else schema


def _mend_required(schema: dict[str, Any]) -> None:
    names = schema.get("required")
    required = list(names) if isinstance(names, list) else []
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if isinstance(part, dict) and isinstance(part.get("required"), bool) and part.pop("required"):
            required.append(name)
    if required and all(isinstance(name, str) for name in required):
        schema["required"] = list(dict.fromkeys(required))
