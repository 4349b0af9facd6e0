"""The texts of a definition as models get them: without hidden characters, and of a limited length. Pure.

In a schema, texts are told from values that a caller has to send exactly. A text (`description`, `title`, `default`,
whatever is no constraint) is cleaned. A pattern gets escapes for its hidden characters, so that it means the same. The
name of a parameter or a permitted value cannot be changed, so it is reported (`exact`), and the tool should be refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from toolrun.hidden_characters import has_hidden, replace_hidden, reveal, without_hidden
from toolrun.json import dumps

UNLIMITED: Final = sys.maxsize
SCHEMA_SHARE: Final = 10
"""All texts of a schema together may have so many times the characters of a description."""
_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by name."""
_EXACT: Final = frozenset(
    {
        *("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "const", "dependencies"),
        *("dependentRequired", "enum", "format", "required", "type"),
    }
)
"""Keywords whose values mean exactly what they say."""
_MAY_HIDE: Final = re.compile(rb"\\[bfru]|\x7f")
"""In JSON that is ASCII: how a character is written that may be hidden."""
_DEEPEST: Final = 100
"""Levels. The validator refuses what is deeper."""


def clean_definition(definition: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """A definition in the form of MCP, for a model."""
    clean = dict(definition)
    for key in ("title", "description"):
        if isinstance(clean.get(key), str):
            clean[key] = clean_text(clean[key], limit)
    for key in ("inputSchema", "outputSchema", "annotations"):
        if isinstance(clean.get(key), Mapping):
            clean[key] = clean_schema(clean[key], limit)[0]
    return clean


def cut_text(text: str, limit: int) -> str:
    """The text, or its beginning and how much is missing."""
    more = len(text) - limit
    return text if more <= 0 else f"{text[:limit]}… (cut: {more:,} more characters)"


def clean_text(text: str, limit: int) -> str:
    """The text for a model. It is cut first: looking for what is hidden takes longer than counting."""
    return without_hidden(cut_text(text, limit))


def cut_schema(schema: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The schema with its texts cut, and otherwise as it is."""
    return _Walk(limit, cleans=False).schema(schema, 0)


def clean_schema(schema: Mapping[str, Any], limit: int) -> tuple[dict[str, Any], list[str]]:
    """The schema for a model, and the names and values in it that have hidden characters, as they are shown to people.

    No single text is longer than `limit`, and all together are not longer than `SCHEMA_SHARE` times that.
    """
    written = dumps(schema)
    if len(written) <= limit and written.isascii() and not _MAY_HIDE.search(written):
        return dict(schema), []
    walk = _Walk(limit, cleans=True)
    return walk.schema(schema, 0), walk.exact


class _Walk:
    """One way through a schema, which knows how much text there was so far."""

    def __init__(self, limit: int, *, cleans: bool) -> None:
        self.exact: list[str] = []
        """Names and values with hidden characters."""
        self._limit = limit
        self._left = limit * SCHEMA_SHARE
        self._cleans = cleans

    def schema(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            return dict(schema)
        return {self._key(key): self._part(key, value, depth) for key, value in schema.items()}

    def _part(self, key: str, value: Any, depth: int) -> Any:
        if key in _NAMED and isinstance(value, Mapping):
            name = self._pattern if key == "patternProperties" else self._key
            return {name(it): self._value(part, depth + 1) for it, part in value.items()}
        if key in _EXACT:
            self._check(value, depth + 1)
            return value
        if key == "pattern" and isinstance(value, str):
            return self._pattern(value)
        return self._value(value, depth + 1)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if depth > _DEEPEST:
            return value
        if isinstance(value, list):
            return [self._value(it, depth + 1) for it in value]
        return self.schema(value, depth + 1) if isinstance(value, Mapping) else value

    def _text(self, text: str) -> str:
        allowed = min(self._limit, self._left)
        self._left -= min(len(text), allowed)
        text = cut_text(text, allowed)
        return without_hidden(text) if self._cleans else text

    def _pattern(self, pattern: str) -> str:
        return replace_hidden(pattern, _escape) if self._cleans else pattern

    def _key(self, key: str) -> str:
        if self._cleans and has_hidden(key):
            self.exact.append(reveal(key))
        return key

    def _check(self, value: Any, depth: int) -> None:
        """Note the hidden characters of what has to be exact."""
        if isinstance(value, str):
            self._key(value)
        elif depth <= _DEEPEST and isinstance(value, list | Mapping):
            for item in value:  # of an object its keys
                self._check(item, depth + 1)
            for item in value.values() if isinstance(value, Mapping) else ():
                self._check(item, depth + 1)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}"
