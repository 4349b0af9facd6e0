"""Puts a schema into short phrases for a description, where a model can read what its provider drops. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.simple_schema import SimpleSchema
from toolrun.json import JSON
from toolrun.text import cut, show

_MAX_VALUES: Final = 50
_MAX_EXPRESSION: Final = 1000
"""Characters. A model does not profit from more."""
_MAX_VALUE_CHARS: Final = 200
_PLAIN: Final = re.compile(r"[^\W\d][\w.$@-]*")
_RANGES: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", "character"),
    ("minItems", "maxItems", "item"),
    ("minProperties", "maxProperties", "name"),
)
_PHRASES: Final = {
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "pattern": "has to match {}",
    "format": "format {}",
    "contentEncoding": "encoded as {}",
    "contentMediaType": "content of type {}",
    "default": "default {}",
}
_QUOTED: Final = frozenset({"default"})
_FLAGS: Final = {"uniqueItems": "no item twice", "deprecated": "deprecated"}
_DEPENDENT: Final = frozenset({"additionalProperties", "minContains", "maxContains"})
"""Keytext that mean nothing to a model without another one."""


def append_phrases(description: str, phrases: list[str]) -> str:
    """The description with the phrases in brackets after it."""
    more = "; ".join(dict.fromkeys(phrases))
    return f"{description} ({more})" if description and more else description or more


def keyword_phrases(keywords: Mapping[str, JSON], description: str = "") -> list[str]:
    """One phrase for each keyword, or for a pair of bounds. A default that the description names is left out."""
    phrases = []
    for lower, upper, unit in _RANGES:
        least, most = keywords.get(lower), keywords.get(upper)
        if unit and least == 0:
            least = None
        if least is not None or most is not None:
            phrases.append(_range(least, most, unit))
    for keyword, value in keywords.items():
        if keyword in _PHRASES:
            if keyword != "default" or not _is_redundant_default(value, description):
                is_text = isinstance(value, str) and keyword not in _QUOTED
                phrases.append(_PHRASES[keyword].format(value if is_text else show(value, _MAX_VALUE_CHARS)))
        elif keyword in _FLAGS:
            phrases += [_FLAGS[keyword]] if value is True else []
        elif keyword in ("examples", "example"):
            first = value[0] if isinstance(value, list) and value else value
            phrases.append(f"for example {show(first, _MAX_VALUE_CHARS)}")
        elif keyword == "dependentRequired" and isinstance(value, dict):
            phrases += [f"{name} needs {', '.join(map(str, _list(more)))}" for name, more in value.items()]
        elif not any(keyword in pair for pair in _RANGES) and keyword not in _DEPENDENT:
            phrases.append(f"{keyword} {show(value, _MAX_VALUE_CHARS)}")
    return phrases


def _is_redundant_default(value: JSON, description: str) -> bool:
    return value is None or ("default" in description.lower() and show(value) in description)


def type_expression(schema: SimpleSchema) -> str:
    """The schema in a notation like TypeScript's.

    `integer (0 to 10)`, `"fast" | "slow"`, `{x: number, y?: array of string}`
    """
    return cut(_type_expression(schema), _MAX_EXPRESSION)


def variants_phrase(schemas: tuple[SimpleSchema, ...]) -> str:
    """A group of variants in one phrase: only the names of the properties, and the values of an `enum`."""
    if all(not schema.properties for schema in schemas):
        return f"needs {' or '.join(' and '.join(map(_name, schema.required)) or 'none of them' for schema in schemas)}"
    return cut(f"one of: {' or '.join(dict.fromkeys(map(_outline, schemas)))}", _MAX_EXPRESSION)


def _type_expression(schema: SimpleSchema) -> str:
    phrases = [schema.description.rstrip(".")] if schema.description else []
    phrases += keyword_phrases(schema.keywords, schema.description)
    bare = _bare_expression(schema)
    if schema.nullable:
        bare = f"{bare} | null"
    return f"{bare} ({', '.join(phrases)})" if phrases else bare


def _bare_expression(schema: SimpleSchema) -> str:
    if schema.enum is not None:
        return _enum_expression(schema.enum)
    if schema.any_of:
        return " | ".join(dict.fromkeys(map(_type_expression, schema.any_of)))
    return " | ".join(_single_type(name, schema) for name in schema.types) or "any"


def _single_type(name: str, schema: SimpleSchema) -> str:
    if name == "array":
        return _array_expression(schema)
    if name != "object":
        return name
    if _is_only_variants(schema):
        return " | ".join(dict.fromkeys(map(_type_expression, schema.variants[0])))
    members = [
        f"{_name(key)}{'' if key in schema.required else '?'}: {_type_expression(part)}"
        for key, part in schema.properties.items()
    ]
    members += [f"{_name(key)}: any" for key in schema.required if key not in schema.properties]
    if schema.additional_properties:
        members.append(f"any name: {_type_expression(schema.additional_properties)}")
    text = f"{{{', '.join(members)}}}" if members else "object"
    return f"{text} ({'; '.join(map(variants_phrase, schema.variants))})" if schema.variants else text


def _is_only_variants(schema: SimpleSchema) -> bool:
    """Whether the variants say everything about an object."""
    if len(schema.variants) != 1 or schema.additional_properties:
        return False
    return schema.properties.keys() == {name for part in schema.variants[0] for name in part.properties} != set()


def _array_expression(schema: SimpleSchema) -> str:
    if schema.prefix_items:
        more = [f"more of {_type_expression(schema.items)}"] if schema.items else []
        return f"[{', '.join([*map(_type_expression, schema.prefix_items), *more])}]"
    if schema.items is None:
        return "array"
    inner = _type_expression(schema.items)
    return f"array of ({inner})" if " | " in inner else f"array of {inner}"


def _outline(schema: SimpleSchema) -> str:
    """The properties without their types: `{kind: "circle", radius, colour?}`."""
    names = dict.fromkeys([*schema.properties, *schema.required])
    return f"{{{', '.join(_member(name, schema) for name in names)}}}"


def _member(name: str, schema: SimpleSchema) -> str:
    part = schema.properties.get(name)
    values = f": {_enum_expression(part.enum)}" if part is not None and part.enum is not None else ""
    return f"{_name(name)}{'' if name in schema.required else '?'}{values}"


def _enum_expression(values: tuple[JSON, ...]) -> str:
    shown = " | ".join(show(value) for value in values[:_MAX_VALUES])
    return shown if len(values) <= _MAX_VALUES else f"{shown} | … ({len(values)} in all)"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else show(name)


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _range(lower: JSON, upper: JSON, unit: str) -> str:
    if lower is None or upper is None:
        count = upper if lower is None else lower
        text = f"{'at most' if lower is None else 'at least'} {show(count)}"
    else:
        count = upper
        text = show(upper) if lower == upper else f"{show(lower)} to {show(upper)}"
    return f"{text} {unit if count == 1 else f'{unit}s'}" if unit else text
