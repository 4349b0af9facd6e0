"""What a value in a configuration must be: in words for the error, as a check, and as its final form.

Knows types and ranges; knows neither keys nor sections nor files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolrun.config.parse import plain
from toolrun.errors import ConfigError
from toolrun.json import JSON
from toolrun.text import show


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be: in words, as a check, and how it gets its final form."""

    words: str
    accepts: Callable[[JSON], bool]
    convert: Callable[[Any], object]
    parse: Callable[[str], JSON] | None = None
    """Reads the value from an environment variable. `None`: cannot be set by one."""


def _is_seconds(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _is_texts(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_patterns(value: JSON) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and item and not item.startswith("/") for item in value
    )


def _is_delays(value: JSON) -> bool:
    return isinstance(value, list) and bool(value) and all(item == 0 or _is_seconds(item) for item in value)


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


def count(minimum: int) -> Kind:
    def accepts(value: JSON) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= minimum

    return Kind(f"a whole number >= {minimum}", accepts, int, int)


def one_of(*names: str) -> Kind:
    words = f"one of {', '.join(map(show, names))}"
    return Kind(words, lambda value: isinstance(value, str) and value.lower() in names, str.lower, str)


SECONDS = Kind("a number of seconds > 0", _is_seconds, float, float)
SWITCH = Kind("true or false", lambda value: isinstance(value, bool), bool, _parse_switch)
TEXT = Kind("a string", lambda value: isinstance(value, str), str, str)
TEXTS = Kind("a list of strings", _is_texts, tuple)
PATTERNS = Kind("a list of glob patterns relative to the configuration file", _is_patterns, tuple)
DELAYS = Kind("a list of seconds >= 0, at least one", _is_delays, lambda value: tuple(map(float, value)))
TEXT_TABLE = Kind("a table of strings", _is_text_table, lambda value: MappingProxyType(dict(value)))
TABLE = Kind("a table that JSON can hold (no nan, no inf)", _is_table, plain)

KIND_OF: Mapping[object, Kind] = {
    "bool": SWITCH,
    "int": count(1),
    "int | None": count(1),
    "float": SECONDS,
    "float | None": SECONDS,
    "str": TEXT,
    "tuple[str, ...]": TEXTS,
    "Mapping[str, JSON]": TABLE,
}
"""The kind of a dataclass field by the text of its annotation (the module needs postponed annotations)."""
