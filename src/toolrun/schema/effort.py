"""How long a check of arguments may take at most, told from their size and from what the schema asks. Pure.

The validator is one call into C. Nothing else of this process runs until it returns, in any thread, so whether it may
be made here has to be known before. The bound is rough: what it calls long is checked elsewhere, where it may be long.
So is what has code of its own, such as a mapping that makes its items when asked: nobody knows how long it takes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from toolrun.json import INT64, JSON, Schema
from toolrun.schema.value import exactly

MAX_CHECK: Final = 200_000
"""Checks that are made on the event loop, each less than 100 ns."""
MAX_CHANGE: Final = 60_000
"""The same where the arguments are not valid: to repair and to explain them takes many times as long."""
_MAX_VALUES: Final = 50_000
_MAX_CHARS: Final = 2_000_000
_MAX_DEPTH: Final = 1000
_FEW_LEVELS: Final = 6
_ONE_BY_ONE: Final = 20
"""Checks for a value that exactly one part of the schema looks at."""
_FRACTION: Final = 200
"""The same for `multipleOf` a fraction, which is divided with as many digits as it takes."""
_TEXTS: Final = (str, bytes, bytearray)
_LONG_INTEGER: Final = 640
"""An integer beyond 64 bits takes as long as a text of so many characters."""
_CHANGE_OPTION: Final = 0.5
_CHANGE_ALTERNATIVE: Final = 15
_CHANGE_NODE: Final = 4
"""Steps of a change: for each option that a value is none of, for each alternative that is tried, and for each part of
the schema, whatever the arguments are: a refusal may speak of all of them."""
_SHARED: Final = frozenset(
    {
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "not",
        "contains",
        "dependentSchemas",
        "dependencies",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "uniqueItems",
    }
)
"""Keywords by which several parts of the schema look at one value, or at all of them again."""
_FLAT: Final = frozenset(
    {
        "type",
        "title",
        "description",
        "default",
        "examples",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "enum",
        "const",
        "anyOf",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)
"""Keywords that take the same time for every value."""


class Counts(Protocol):
    """What was found in a schema while it was copied."""

    nodes: int
    patterns: int
    backtracking: int


class Effort:
    """A bound for the checks of one schema."""

    __slots__ = ("_backtracking", "_change", "_each_change", "_is_recursive", "_patterns", "each", "is_flat")

    def __init__(self, root: Schema, work: int, counts: Counts, is_recursive: bool) -> None:
        is_shared = _is_shared(root)
        self.each = (work if is_shared else min(work, _ONE_BY_ONE)) + _FRACTION * _has_fraction(root)
        """Checks for one value at most, patterns aside."""
        options = _options(root)
        listed = sum(options) if is_shared else max(options, default=0)
        self._each_change = self.each + _CHANGE_OPTION * listed + _CHANGE_ALTERNATIVE * _alternatives(root)[1]
        self._change = _CHANGE_NODE * counts.nodes
        self._patterns = counts.patterns
        self._backtracking = counts.backtracking
        self._is_recursive = is_recursive
        properties = root.get("properties", {})
        self.is_flat = (
            root.get("additionalProperties") is False
            and root.keys() <= {"type", "properties", "required", "additionalProperties", "title", "description"}
            and isinstance(properties, dict)
            and all(map(_is_flat, properties.values()))
        )
        """Whether every check takes the same short time, whatever the arguments are."""

    def is_short(self, arguments: object, is_change: bool = False) -> bool:
        """Whether a check of the arguments may be made on the event loop; `is_change`: of those that are not valid."""
        if issubclass(type(arguments), _TEXTS):
            return self._is_short_text(arguments, is_change)
        values = chars = parsed = longest = depth = 0
        level: list[Any] = [arguments]
        while level:
            depth += 1
            inner: list[Any] = []
            for each in level:
                item, kind = each, type(each)
                if not (kind is str or kind is dict or kind is list or kind is int or each is None):
                    if kind is float or kind is bool:
                        continue
                    item = exactly(each, _MAX_VALUES)
                    kind = type(item)
                    if item is None:
                        return False
                if kind is str:
                    chars += len(item)
                    longest = max(longest, len(item))
                    if is_change and chars <= _MAX_CHARS and ("{" in item or "[" in item):  # it may be read as JSON
                        parsed += len(item)
                        count, _ = _members(item)
                        values += count
                elif kind is int and not -INT64 <= item < INT64:
                    chars += _LONG_INTEGER
                elif kind is dict or kind is list:
                    values += len(item)
                    if values > _MAX_VALUES or depth > _MAX_DEPTH:
                        return False
                    if kind is dict:
                        chars += sum([len(key) for key in item if type(key) is str])
                    inner += item.values() if kind is dict else item
            if chars > _MAX_CHARS:
                return False
            level = inner
        return self._fits(values + 1, chars, parsed, longest, depth, is_change)

    def _is_short_text(self, given: object, is_change: bool) -> bool:
        text: Any = exactly(given, _MAX_CHARS) if issubclass(type(given), str) else given
        if type(text) is not str and type(text) is not bytes and type(text) is not bytearray:
            return False  # code of its own
        size = len(text)
        if size > _MAX_CHARS:
            return False
        count, depth = _members(text)
        return self._fits(1 + count, size, size if is_change else 0, size, depth, is_change)

    def _fits(self, values: int, chars: int, parsed: int, longest: int, depth: int, is_change: bool) -> bool:
        # An alternative that leads back to the schema may be tried again at every level.
        again = 2 ** min(max(0, depth - _FEW_LEVELS), 60) if self._is_recursive else 1
        texts = (chars >> 4) + (parsed >> 2) + self._patterns * (chars >> 3) + self._backtracking * chars * longest / 32
        if is_change:
            return values * self._each_change * again + self._change + texts <= MAX_CHANGE
        return values * self.each * again + texts <= MAX_CHECK


def _members(text: Any) -> tuple[int, int]:
    """How many values a JSON text may hold at most, and how many brackets."""
    comma, *brackets = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    depth = sum(map(text.count, brackets))
    return text.count(comma) + depth, depth


def _has_fraction(value: JSON) -> bool:
    if isinstance(value, list):
        return any(map(_has_fraction, value))
    if not isinstance(value, dict):
        return False
    step = value.get("multipleOf")
    return (isinstance(step, float) and not step.is_integer()) or any(map(_has_fraction, value.values()))


def _is_shared(value: JSON) -> bool:
    if isinstance(value, list):
        return any(map(_is_shared, value))
    if not isinstance(value, dict):
        return False
    options = value.get("enum")
    has_large_options = isinstance(options, list) and any(isinstance(it, dict | list) for it in options)
    return has_large_options or not _SHARED.isdisjoint(value) or any(map(_is_shared, value.values()))


def _options(value: JSON) -> list[int]:
    """How many options there are wherever a schema lists some."""
    if isinstance(value, list):
        return [size for item in value for size in _options(item)]
    if not isinstance(value, dict):
        return []
    listed = value.get("enum")
    below = [size for item in value.values() for size in _options(item)]
    return [*below, len(listed)] if isinstance(listed, list) else below


def _alternatives(value: JSON) -> tuple[int, int]:
    """How many alternatives there are in a part of a schema, and at most for one value and all that is in it."""
    if isinstance(value, list):
        found = [_alternatives(item) for item in value]
        return sum(count for count, _ in found), max((most for _, most in found), default=0)
    if not isinstance(value, dict):
        return 0, 0
    count, most = _alternatives(list(value.values()))
    own = sum(len(it) for it in (value.get("anyOf"), value.get("oneOf")) if isinstance(it, list))
    return count + own, max(most, count + own) if own else most


def _is_flat(schema: JSON) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _FLAT:
        return False
    alternatives, types = schema.get("anyOf", []), schema.get("type", [])
    listed = schema.get("enum")
    options = [schema.get("const"), *(listed if isinstance(listed, list) else ())]
    return (
        isinstance(alternatives, list)
        and all(map(_is_flat, alternatives))
        and not {"array", "object"}.intersection(types if isinstance(types, list) else [types])
        and bool(types or alternatives or "enum" in schema or "const" in schema)
        and not any(isinstance(it, dict | list) for it in options)
        and len(options) <= 1000
    )
