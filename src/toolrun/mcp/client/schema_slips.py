"""Slips in the schemas that servers list, mended where only one thing can be meant. Pure.

Generators write `description: null` for a text that is not there, and servers copy the form of an older draft without
naming it. Taken by the letter such a schema is invalid, and its tool would be lost. What is mended:

| listed | read as |
|---|---|
| `null` for a keyword, or for the schema of a property | nothing; a property that takes anything |
| `[]` for an object, or an object for a list of names, as PHP writes them | the object; the names |
| `description`, `title` that are no text | nothing |
| `required` with a name twice, with `null`, or as one text | the name once |
| `required: true` in a property, as in draft 3 | the name in `required` of the object |
| `type: ["object"]` or `["object", "null"]` at the root | `type: "object"` |
| `type: "String"`, `"int"`, `["string", null]` | `"string"`, `"integer"`, `["string", "null"]` |
| `type: "any"`, `""` | nothing |
| `null` in `anyOf`, `oneOf` | `{"type": "null"}` |
| `exclusiveMinimum: true` beside `minimum`, as in draft 4 | `exclusiveMinimum` with the number |
| `additionalProperties: "false"` | `false` |
| a list as `items`, without `$schema` or with 2020-12's | `prefixItems`; `additionalItems` becomes `items` |

Everything else stays as it is listed, and the validator judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEPEST: Final = 100
"""Levels. The validator refuses what is deeper."""
_VALUES: Final = frozenset({"const", "default", "example"})
"""Keywords that hold a value, of which `null` is one."""
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
_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_TYPES: Final = {
    **{name: name for name in ("array", "boolean", "integer", "null", "number", "object", "string")},
    **{"bool": "boolean", "int": "integer", "long": "integer", "float": "number", "double": "number"},
    **{"str": "string", "text": "string", "list": "array", "dict": "object", "map": "object", "none": "null"},
}
_ANYTHING: Final = frozenset({"", "any", "mixed"})
_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"


def mend(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as it was meant."""
    draft = schema.get("$schema")
    is_newest = not isinstance(draft, str) or draft.removesuffix("#") == _NEWEST
    mended = _schema(schema, is_newest, 0)
    if mended.get("type") in (["object"], ["object", "null"], ["null", "object"]):
        mended["type"] = "object"
    return mended


def _schema(schema: Mapping[str, Any], is_newest: bool, depth: int) -> dict[str, Any]:
    mended: dict[str, Any] = {}
    for key, value in schema.items():
        is_slip = (value is None and key not in _VALUES) or (key in _TEXTS and not isinstance(value, str))
        if not is_slip and not (key == "items" and value == []):
            mended[key] = _part(key, value, is_newest, depth)
    if is_newest and isinstance(mended.get("items"), list) and "prefixItems" not in mended:
        mended["prefixItems"] = mended.pop("items")
    if is_newest and "additionalItems" in mended and "items" not in mended:
        mended["items"] = mended.pop("additionalItems")
    _mend_type(mended)
    if is_newest:
        _mend_bounds(mended)
    _mend_required(mended)
    return mended


def _part(key: str, value: Any, is_newest: bool, depth: int) -> Any:
    if depth >= _DEEPEST:
        return value
    if key in _ONE and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if key in _ONE and isinstance(value, Mapping):
        return _schema(value, is_newest, depth + 1)
    if key in _SEVERAL and isinstance(value, list):
        null = {"type": "null"} if key in _ALTERNATIVES else None
        items = [null if it is None else it for it in value]
        return [_schema(it, is_newest, depth + 1) if isinstance(it, Mapping) else it for it in items]
    if key in _NAMED and value == []:
        return {}
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _named(it, is_newest, depth + 1) for name, it in value.items()}
    return value


def _named(schema: Any, is_newest: bool, depth: int) -> Any:
    if schema is None or schema == []:
        return {}
    return _schema(schema, is_newest, depth) if isinstance(schema, Mapping) else schema


def _mend_type(schema: dict[str, Any]) -> None:
    listed = schema.get("type")
    names = listed if isinstance(listed, list) else [listed]
    if listed is None or not all(name is None or isinstance(name, str) for name in names):
        return
    known = ["null" if name is None else name.strip().lower() for name in names]
    if any(name in _ANYTHING for name in known):
        del schema["type"]
    elif known and all(name in _TYPES for name in known):
        read = list(dict.fromkeys(_TYPES[name] for name in known))
        schema["type"] = read if isinstance(listed, list) else read[0]


def _mend_bounds(schema: dict[str, Any]) -> None:
    for exclusive, bound in _BOUNDS:
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _mend_required(schema: dict[str, Any]) -> None:
    properties = schema.get("properties")
    marked = [
        name
        for name, part in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(part, dict) and isinstance(part.get("required"), bool) and part.pop("required")
    ]
    listed = _names(schema.get("required", []))
    if listed is None:
        return
    required = list(dict.fromkeys([*listed, *marked]))
    if required or schema.get("required") == []:
        schema["required"] = required
    else:
        schema.pop("required", None)


def _names(required: Any) -> list[str] | None:
    """The names in a `required`; None if it is not clear which they are."""
    if isinstance(required, str):
        return [required] if required else []
    names = list(required.values()) if isinstance(required, dict) else required
    if not isinstance(names, list) or not all(name is None or isinstance(name, str) for name in names):
        return None
    return [name for name in names if name is not None]
