"""How long a check of arguments may take at most, told from their size and from what the schema asks. Pure.

The validator is one call into C. Nothing else of this process runs until it returns, in any thread, so whether it may
be made here has to be known before. The bound is rough: what it calls long is checked elsewhere, where it may be long.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from toolrun.json import JSON, Schema

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

    patterns: int
    backtracking: int


class Effort:
    """A bound for the checks of one schema."""

    __slots__ = ("_backtracking", "_each", "_is_recursive", "_patterns", "is_flat")

    def __init__(self, root: Schema, work: int, counts: Counts, is_recursive: bool) -> None:
        self._each = work if _is_shared(root) else min(work, _ONE_BY_ONE)
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

    def is_within(self, arguments: object, limit: int) -> bool:
        """Whether a check of the arguments takes at most `limit` steps."""
        if isinstance(arguments, str | bytes | bytearray):
            text: Any = arguments
            size = len(text)
            if size > _MAX_CHARS:
                return False
            comma, *brackets = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
            depth = sum(map(text.count, brackets))
            return self._steps(1 + text.count(comma) + depth, size, size, depth) <= limit
        values = chars = longest = depth = 0
        level: list[Any] = [arguments]
        while level:
            depth += 1
            inner: list[Any] = []
            for item in level:
                kind = type(item)
                if kind is str:
                    chars += len(item)
                    longest = max(longest, len(item))
                elif kind is dict or kind is list or kind is tuple:
                    values += len(item)
                    if values > _MAX_VALUES or depth > _MAX_DEPTH:
                        return False
                    if kind is dict:
                        chars += sum([len(key) for key in item if type(key) is str])
                    inner += item.values() if kind is dict else item
            if chars > _MAX_CHARS:
                return False
            level = inner
        return self._steps(values + 1, chars, longest, depth) <= limit

    def _steps(self, values: int, chars: int, longest: int, depth: int) -> float:
        # An alternative that leads back to the schema may be tried again at every level.
        again = 2 ** min(max(0, depth - _FEW_LEVELS), 60) if self._is_recursive else 1
        texts = (chars >> 4) + self._patterns * (chars >> 3) + self._backtracking * chars * longest / 32
        return values * self._each * again + texts


def _is_shared(value: JSON) -> bool:
    if isinstance(value, list):
        return any(map(_is_shared, value))
    if not isinstance(value, dict):
        return False
    options = value.get("enum")
    has_large_options = isinstance(options, list) and any(isinstance(it, dict | list) for it in options)
    return has_large_options or not _SHARED.isdisjoint(value) or any(map(_is_shared, value.values()))


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
