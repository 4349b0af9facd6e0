"""The types of values in a configuration: a description for errors, a check, and a conversion.

Knows types and ranges; knows neither keys nor sections nor files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from toolrun.config.host_pattern import is_host_pattern
from toolrun.config.model import ApprovalRule, Permissions
from toolrun.config.parse import plain
from toolrun.errors import ConfigError
from toolrun.json import JSON
from toolrun.text import show, suggestion
from toolrun.tools.effects import Effects
from toolrun.tools.protocol import is_seconds


class ValueType(NamedTuple):
    """One type of value."""

    words: str
    """What a value must be, for the error message: `a whole number >= 1`."""
    accepts: Callable[[JSON], bool]
    convert: Callable[[Any], object]
    parse: Callable[[str], JSON] | None = None
    """Parses the text of an environment variable. `None`: no variable can set the value."""
    explain: Callable[[JSON], str] = lambda value: ""
    """Which part of a value that is not accepted is wrong, where the value has parts."""
    schema: Mapping[str, JSON] = MappingProxyType({})
    """The same as JSON Schema, for editors."""


def _is_texts(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_patterns(value: JSON) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and item and not item.startswith("/") for item in value
    )


def _is_delays(value: JSON) -> bool:
    return isinstance(value, list) and bool(value) and all(item == 0 or is_seconds(item) for item in value)


def _is_text_table(value: JSON) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _is_resources(value: JSON) -> bool:
    return isinstance(value, dict) and all(
        name and isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item) and item >= 0
        for name, item in value.items()
    )


def _is_lease(value: JSON) -> bool:
    return is_seconds(value) and isinstance(value, int | float) and value >= 1


def _is_table(value: JSON) -> bool:
    try:
        return isinstance(plain(value), dict)
    except ConfigError:
        return False


def _parse_switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


def count(minimum: int) -> ValueType:
    def accepts(value: JSON) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= minimum

    return ValueType(f"a whole number >= {minimum}", accepts, int, int, schema={"type": "integer", "minimum": minimum})


def one_of(*names: str) -> ValueType:
    words = f"one of {', '.join(map(show, names))}"
    schema: Mapping[str, JSON] = {"enum": [*names]}
    return ValueType(
        words, lambda value: isinstance(value, str) and value.lower() in names, str.lower, str, schema=schema
    )


ACTION = one_of("allow", "ask", "deny")
EFFECTS = one_of(*(it.value for it in Effects))
SANDBOX = one_of("standard", "strict", "off")
ENGINE = one_of("local", "ray")
_STRING: dict[str, JSON] = {"type": "string"}
_STRINGS: dict[str, JSON] = {"type": "array", "items": _STRING}
_OBJECT: dict[str, JSON] = {"type": "object"}

SECONDS = ValueType(
    "a number of seconds > 0", is_seconds, float, float, schema={"type": "number", "exclusiveMinimum": 0}
)
LEASE = ValueType("a number of seconds >= 1", _is_lease, float, float, schema={"type": "number", "minimum": 1})
SWITCH = ValueType(
    "true or false", lambda value: isinstance(value, bool), bool, _parse_switch, schema={"type": "boolean"}
)
TEXT = ValueType("a string", lambda value: isinstance(value, str), str, str, schema=_STRING)
TEXTS = ValueType("a list of strings", _is_texts, tuple, schema=_STRINGS)
PATTERNS = ValueType(
    "a list of glob patterns relative to the configuration file",
    _is_patterns,
    tuple,
    schema={"type": "array", "items": {"type": "string", "pattern": "^[^/]"}},
)
DELAYS = ValueType(
    "a list of seconds >= 0, at least one",
    _is_delays,
    lambda value: tuple(map(float, value)),
    schema={"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
)
TEXT_TABLE = ValueType(
    "a table of strings",
    _is_text_table,
    lambda value: MappingProxyType(dict(value)),
    schema=_OBJECT | {"additionalProperties": _STRING},
)
TABLE = ValueType("a table that JSON can hold (no nan, no inf)", _is_table, plain, schema=_OBJECT)

RESOURCES = ValueType(
    "a table of numbers >= 0, such as { CPU = 1, GPU = 1 }",
    _is_resources,
    lambda value: MappingProxyType({name: float(item) for name, item in value.items()}),
    schema=_OBJECT | {"additionalProperties": {"type": "number", "minimum": 0}},
)

_SWITCH_OR_TEXTS = ("net", "run")
_PERMISSIONS = ("net", "read", "write", "run", "env")
_VARIABLE = re.compile(r"[^=\0]+")
_PATH = re.compile(r"[^\0]+")


def _is_permissions(value: JSON) -> bool:
    return isinstance(value, dict) and all(_is_permission(name, item) for name, item in value.items())


def _is_permission(name: str, value: JSON) -> bool:
    if name in _SWITCH_OR_TEXTS and isinstance(value, bool):
        return True
    return name in _PERMISSIONS and isinstance(value, list) and all(_is_entry(name, item) for item in value)


def _is_entry(name: str, value: JSON) -> bool:
    if not isinstance(value, str):
        return False
    return is_host_pattern(value) if name == "net" else bool((_VARIABLE if name == "env" else _PATH).fullmatch(value))


def _wrong_permission(value: JSON) -> str:
    """The first mistake in a table of permissions."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if name not in _PERMISSIONS:
            hint = suggestion(name, _PERMISSIONS)
            return f"the unknown permission {show(name)}{f' ({hint})' if hint else ''}"
        if not _is_permission(name, item):
            wrong = [it for it in item if not _is_entry(name, it)] if isinstance(item, list) else []
            kind = {"net": "is no host", "env": "is no variable"}.get(name, "is no path or program")
            return f"{name} = {show(wrong[0])}, which {kind}," if wrong else f"{name} = {show(item)}"
    return ""


def _permissions(value: dict[str, Any]) -> Permissions:
    values: dict[str, Any] = {name: item if isinstance(item, bool) else tuple(item) for name, item in value.items()}
    return Permissions(**values)


PERMISSIONS = ValueType(
    'a table of permissions: net and run are true, false or a list (`net = ["example.com:443"]`, `run = ["git"]`), '
    "read, write and env are lists",
    _is_permissions,
    _permissions,
    explain=_wrong_permission,
    schema=_OBJECT
    | {
        "properties": {
            name: {"anyOf": [{"type": "boolean"}, _STRINGS]} if name in _SWITCH_OR_TEXTS else _STRINGS
            for name in _PERMISSIONS
        },
        "additionalProperties": False,
    },
)

_RULE_TEXTS = ("tool", "toolset", "source")
_RULE_TABLES = ("annotations", "arguments")


def _is_rules(value: JSON) -> bool:
    return isinstance(value, list) and all(_is_rule(item) for item in value)


def _is_rule(value: JSON) -> bool:
    if not isinstance(value, dict) or "action" not in value:
        return False
    return all(_is_part_of_rule(name, item) for name, item in value.items())


def _is_part_of_rule(name: str, value: JSON) -> bool:
    if name == "action":
        return ACTION.accepts(value)
    return (name in _RULE_TEXTS and isinstance(value, str)) or (name in _RULE_TABLES and _is_table(value))


def _wrong_rule(value: JSON) -> str:
    """The first rule with a mistake, and the mistake."""
    rules = value if isinstance(value, list) else []
    for number, rule in enumerate(rules, 1):
        if not isinstance(rule, dict):
            return f"rule {number} is not a table"
        if "action" not in rule:
            return f"rule {number} has no action"
        for name, item in rule.items():
            if not _is_part_of_rule(name, item):
                return f"rule {number}: {name} = {show(item)}"
    return ""


def _rules(value: list[dict[str, Any]]) -> tuple[ApprovalRule, ...]:
    return tuple(ApprovalRule(**{**rule, "action": rule["action"].lower()}) for rule in value)


RULES = ValueType(
    'a list of rules: each has action ("allow", "ask" or "deny"), and may have the patterns tool, toolset and source '
    "and the tables annotations and arguments",
    _is_rules,
    _rules,
    explain=_wrong_rule,
    schema={
        "type": "array",
        "items": _OBJECT
        | {
            "properties": {
                "action": dict(ACTION.schema),
                **dict.fromkeys(_RULE_TEXTS, _STRING),
                **dict.fromkeys(_RULE_TABLES, _OBJECT),
            },
            "required": ["action"],
            "additionalProperties": False,
        },
    },
)

VALUE_TYPES: Mapping[object, ValueType] = {
    "bool": SWITCH,
    "int": count(1),
    "int | None": count(1),
    "float": SECONDS,
    "float | None": SECONDS,
    "str": TEXT,
    "tuple[str, ...]": TEXTS,
    "Mapping[str, JSON]": TABLE,
    "Permissions": PERMISSIONS,
    "tuple[ApprovalRule, ...]": RULES,
    "Permissions | None": PERMISSIONS,
}
"""The type of a dataclass field by the text of its annotation (its module needs postponed annotations)."""
