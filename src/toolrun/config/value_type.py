"""The types of values in a configuration: a description for errors, a check, and a conversion.

Knows types and ranges; knows neither keys nor sections nor files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolrun.config.parse import plain
from toolrun.errors import ConfigError
from toolrun.json import JSON
from toolrun.text import show
from toolrun.tools.protocol import is_seconds


@dataclass(frozen=True, slots=True)
class ValueType:
    """One type of value."""

    words: str
    """What a value must be, for the error message: `a whole number >= 1`."""
    accepts: Callable[[JSON], bool]
    convert: Callable[[Any], object]
    parse: Callable[[str], JSON] | None = None
    """Parses the text of an environment variable. `None`: no variable can set the value."""


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

    return ValueType(f"a whole number >= {minimum}", accepts, int, int)


def one_of(*names: str) -> ValueType:
    words = f"one of {', '.join(map(show, names))}"
    return ValueType(words, lambda value: isinstance(value, str) and value.lower() in names, str.lower, str)


SECONDS = ValueType("a number of seconds > 0", is_seconds, float, float)
SWITCH = ValueType("true or false", lambda value: isinstance(value, bool), bool, _parse_switch)
TEXT = ValueType("a string", lambda value: isinstance(value, str), str, str)
TEXTS = ValueType("a list of strings", _is_texts, tuple)
PATTERNS = ValueType("a list of glob patterns relative to the configuration file", _is_patterns, tuple)
DELAYS = ValueType("a list of seconds >= 0, at least one", _is_delays, lambda value: tuple(map(float, value)))
TEXT_TABLE = ValueType("a table of strings", _is_text_table, lambda value: MappingProxyType(dict(value)))
TABLE = ValueType("a table that JSON can hold (no nan, no inf)", _is_table, plain)

VALUE_TYPES: Mapping[object, ValueType] = {
    "bool": SWITCH,
    "int": count(1),
    "int | None": count(1),
    "float": SECONDS,
    "float | None": SECONDS,
    "str": TEXT,
    "tuple[str, ...]": TEXTS,
    "Mapping[str, JSON]": TABLE,
}
"""The type of a dataclass field by the text of its annotation (its module needs postponed annotations)."""
