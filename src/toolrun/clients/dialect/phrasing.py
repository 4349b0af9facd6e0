"""What a schema says, in short words for a description. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.simple_schema import Node
from toolrun.json import JSON
from toolrun.text import show

_MAX_OPTIONS: Final = 50
_MAX_FORM: Final = 1000
"""Characters; what is longer would be read by no model with profit."""
_MAX_VALUE: Final = 200
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
_WITH_OTHERS: Final = frozenset({"additionalProperties", "minContains", "maxContains"})
"""Say nothing to a model on their own."""


def describe(text: str, words: list[str]) -> str:
    """A description with the words behind it."""
    more = "; ".join(dict.fromkeys(words))
    return f"{text} ({more})" if text and more else text or more


def phrases(rules: Mapping[str, JSON], text: str = "") -> list[str]:
    """What the keywords ask for, one phrase for each or for a pair. `text` is a description that may say it already."""
    said = []
    for lower, upper, unit in _RANGES:
        least, most = rules.get(lower), rules.get(upper)
        if unit and least == 0:
            least = None
        if least is not None or most is not None:
            said.append(_range(least, most, unit))
    for keyword, value in rules.items():
        if keyword in _PHRASES:
            is_said = keyword == "default" and (value is None or ("default" in text.lower() and show(value) in text))
            if not is_said:
                is_text = isinstance(value, str) and keyword not in _QUOTED
                said.append(_PHRASES[keyword].format(value if is_text else show(value, _MAX_VALUE)))
        elif keyword in _FLAGS:
            said += [_FLAGS[keyword]] if value is True else []
        elif keyword in ("examples", "example"):
            first = value[0] if isinstance(value, list) and value else value
            said.append(f"for example {show(first, _MAX_VALUE)}")
        elif keyword == "dependentRequired" and isinstance(value, dict):
            said += [f"{name} needs {', '.join(map(str, _list(more)))}" for name, more in value.items()]
        elif not any(keyword in pair for pair in _RANGES) and keyword not in _WITH_OTHERS:
            said.append(f"{keyword} {show(value, _MAX_VALUE)}")
    return said


def form(node: Node) -> str:
    """What a value looks like: `integer (0 to 10)`, `"fast" | "slow"`, `{x: number, y?: array of string}`."""
    return _cut(_form(node))


def forms(nodes: tuple[Node, ...]) -> str:
    """Objects one of which a value has to be: only the names, and the options of each."""
    if all(not node.properties for node in nodes):
        return f"needs {' or '.join(' and '.join(map(_name, node.required)) or 'none of them' for node in nodes)}"
    return _cut(f"one of: {' or '.join(dict.fromkeys(map(_outline, nodes)))}")


def _form(node: Node) -> str:
    words = [node.description.rstrip(".")] if node.description else []
    words += phrases(node.rules, node.description)
    shape = _shape(node)
    if node.nullable:
        shape = f"{shape} | null"
    return f"{shape} ({', '.join(words)})" if words else shape


def _shape(node: Node) -> str:
    if node.enum is not None:
        return _options(node.enum)
    if node.branches:
        return " | ".join(dict.fromkeys(map(_form, node.branches)))
    return " | ".join(_of_type(name, node) for name in node.types) or "any"


def _of_type(name: str, node: Node) -> str:
    if name == "array":
        return _list_form(node)
    if name != "object":
        return name
    if _is_only_forms(node):
        return " | ".join(dict.fromkeys(map(_form, node.forms[0])))
    members = [
        f"{_name(key)}{'' if key in node.required else '?'}: {_form(part)}" for key, part in node.properties.items()
    ]
    members += [f"{_name(key)}: any" for key in node.required if key not in node.properties]
    if node.others:
        members.append(f"any name: {_form(node.others)}")
    text = f"{{{', '.join(members)}}}" if members else "object"
    return f"{text} ({'; '.join(map(forms, node.forms))})" if node.forms else text


def _is_only_forms(node: Node) -> bool:
    """Whether an object has nothing of its own beside the forms one of which it has to be."""
    if len(node.forms) != 1 or node.others:
        return False
    return node.properties.keys() == {name for part in node.forms[0] for name in part.properties} != set()


def _list_form(node: Node) -> str:
    if node.first:
        more = [f"more of {_form(node.items)}"] if node.items else []
        return f"[{', '.join([*map(_form, node.first), *more])}]"
    if node.items is None:
        return "array"
    inner = _form(node.items)
    return f"array of ({inner})" if " | " in inner else f"array of {inner}"


def _outline(node: Node) -> str:
    """`{kind: "circle", radius, colour?}`."""
    names = dict.fromkeys([*node.properties, *node.required])
    return f"{{{', '.join(_member(name, node) for name in names)}}}"


def _member(name: str, node: Node) -> str:
    part = node.properties.get(name)
    options = f": {_options(part.enum)}" if part is not None and part.enum is not None else ""
    return f"{_name(name)}{'' if name in node.required else '?'}{options}"


def _options(options: tuple[JSON, ...]) -> str:
    shown = " | ".join(show(option) for option in options[:_MAX_OPTIONS])
    return shown if len(options) <= _MAX_OPTIONS else f"{shown} | … ({len(options)} in all)"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_FORM else f"{text[: _MAX_FORM - 1]}…"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else show(name)


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _range(lower: JSON, upper: JSON, unit: str) -> str:
    if lower is None or upper is None:
        count = upper if lower is None else lower
        words = f"{'at most' if lower is None else 'at least'} {show(count)}"
    else:
        count = upper
        words = show(upper) if lower == upper else f"{show(lower)} to {show(upper)}"
    return f"{words} {unit if count == 1 else f'{unit}s'}" if unit else words
