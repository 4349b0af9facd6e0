"""What a tool of a server said of itself when it was agreed to: a hash that tells whether it still does, and as much of
its words as a readable difference needs. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolrun.hidden_characters import reveal
from toolrun.json import JSON, dumps
from toolrun.text import cut, show
from toolrun.trust.definition_text import cut_schema, cut_text

_ORDER: Final = ("name", "title", "description", "annotations", "inputSchema", "outputSchema", "server")
_SCHEMAS: Final = ("inputSchema", "outputSchema")
_MAX_STORED: Final = 500_000
"""Bytes of a definition that are kept in words. Beyond that only the hash knows the schemas."""
_CONTEXT: Final = 2
_MAX_LINE: Final = 300
"""Characters of a line in a difference on which the two sides agree."""
_SHORT_LINES: Final = 6
_SHORT_LINE: Final = 160


@dataclass(frozen=True, slots=True)
class PinnedDefinition:
    """The definition of one tool."""

    hash: str
    """SHA-256 of all of it, as canonical JSON."""
    said: Mapping[str, JSON]
    """What is kept of it: long texts are cut."""


def pin_definition(said: Mapping[str, Any], limit: int) -> PinnedDefinition:
    """`limit` is how many characters of a description are kept."""
    whole = {key: value for key, value in said.items() if value is not None}
    kept: dict[str, Any] = {key: cut_text(it, limit) if isinstance(it, str) else it for key, it in whole.items()}
    kept |= {key: cut_schema(kept[key], limit) for key in _SCHEMAS if isinstance(kept.get(key), Mapping)}
    for key in _SCHEMAS:
        if key in kept and len(dumps(kept)) > _MAX_STORED:
            kept[key] = f"{len(dumps(kept[key])):,} bytes, which are not kept"
    return PinnedDefinition(hashlib.sha256(dumps(whole, sort_keys=True)).hexdigest(), kept)


def changed_parts(before: PinnedDefinition, after: PinnedDefinition) -> list[str]:
    """The parts that differ: `description`, `inputSchema`, `server`."""
    keys = dict.fromkeys([*before.said, *after.said])
    return [key for key in keys if before.said.get(key) != after.said.get(key)] or ["what is too long to be kept"]


def readable_difference(before: PinnedDefinition, after: PinnedDefinition) -> str:
    """A unified diff for people: hidden characters are shown, JSON is indented."""
    import difflib  # not needed until something changes

    old, new = list(_lines(before.said)), list(_lines(after.said))
    difference = difflib.unified_diff(old, new, "agreed to", "now", n=_CONTEXT, lineterm="")
    lines = [reveal(it if it[:1] in "+-" else cut(it, _MAX_LINE)) for it in difference]
    return "\n".join(lines) or "(the difference is in a part that is too long to be kept)"


def short_difference(before: PinnedDefinition, after: PinnedDefinition) -> str:
    """The first lines that differ, for a log."""
    whole = readable_difference(before, after).split("\n")
    lines = [it for it in (whole[2:] or whole) if it[:1] in "+-("]
    shown = [cut(it, _SHORT_LINE) for it in lines[:_SHORT_LINES]]
    more = len(lines) - _SHORT_LINES
    return "\n".join([*shown, *([f"… and {more} more lines"] if more > 0 else [])])


def _lines(said: Mapping[str, JSON]) -> Iterator[str]:
    for key in sorted(said, key=lambda key: (_ORDER.index(key) if key in _ORDER else len(_ORDER), key)):
        value = said[key]
        if isinstance(value, str) and "\n" not in value:
            yield f"{key}: {value}"
        elif isinstance(value, str):
            yield f"{key}:"
            yield from (f"  {line}" for line in value.split("\n"))
        elif isinstance(value, dict | list):
            yield f"{key}:"
            text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
            yield from (f"  {line}" for line in text.split("\n"))
        else:
            yield f"{key}: {show(value)}"
