"""JSON with comments and trailing commas, as VS Code has it: read, and changed in one place. Pure: text in, text out.

A file that belongs to another program is never written anew: what is added is put between what is there, so that
comments, order and layout stay. Mistakes are `ConfigError`s that say where in the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from toolrun.config.parse import parse_json
from toolrun.errors import ConfigError
from toolrun.json import JSON

_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|,(?=\s*[}\]])', re.DOTALL)
_VALUE: Final = json.JSONDecoder(strict=False)


def parse(text: str) -> object:
    """The value of the text. Raises ConfigError, which knows the place."""
    return parse_json(plain(text))


def plain(text: str) -> str:
    """The text as strict JSON of the same length: spaces for comments and trailing commas."""
    return _TRAILING.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else re.sub(r"[^\r\n]", " ", match[0])


def with_entry(text: str, section: str, name: str, value: JSON) -> str:
    """The text of an object with `section.name` set to the value, and nothing else changed."""
    before = parse(text) if text.strip() else {}
    if not isinstance(before, dict):
        raise ConfigError("is not a JSON object; correct it by hand")
    table = before.get(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"has something other than an object under '{section}'; correct it by hand")
    if not text.strip():
        text = "{}\n"
    editor = _Editor(text)
    outer = editor.object_at(0)
    inner = outer.members.get(section)
    if inner is None:
        after = editor.added(outer, section, {name: value})
    else:
        entries = editor.object_at(inner[0])
        found = entries.members.get(name)
        after = editor.added(entries, name, value) if found is None else editor.replaced(found, value)
    if parse(after) != {**before, section: {**table, name: value}}:
        raise ConfigError(f"cannot be changed safely; add '{name}' under '{section}' by hand")
    return after


@dataclass(frozen=True, slots=True)
class _Object:
    """Where an object stands in the text."""

    start: int
    end: int
    """Its closing brace."""
    members: dict[str, tuple[int, int]]
    """Its values, by name: from, to. Of a name that is there twice the last, as parsers have it."""
    last: int
    """Where the last member ends; the opening brace if there is none."""


class _Editor:
    """Knows the text, and the same as strict JSON, place for place."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._plain = plain(text)
        self._newline = "\r\n" if "\r\n" in text else "\n"
        indented = re.search(r"^([ \t]+)\S", self._plain, re.MULTILINE)
        self._unit = "\t" if indented and indented[1].startswith("\t") else " " * len(indented[1]) if indented else "  "

    def object_at(self, place: int) -> _Object:
        start = self._skip(place)
        members: dict[str, tuple[int, int]] = {}
        here = self._skip(start + 1)
        last = start + 1
        while self._plain[here] != "}":
            key, here = _VALUE.raw_decode(self._plain, here)
            begin = self._skip(self._skip(here) + 1)  # over the colon
            _, last = _VALUE.raw_decode(self._plain, begin)
            members[key] = (begin, last)
            here = self._skip(last)
            if self._plain[here] == ",":
                here = self._skip(here + 1)
        return _Object(start, here, members, last)

    def replaced(self, place: tuple[int, int], value: JSON) -> str:
        begin, end = place
        return self._text[:begin] + self._dumped(value, self._indent(begin)) + self._text[end:]

    def added(self, there: _Object, name: str, value: JSON) -> str:
        text, newline, outer = self._text, self._newline, self._indent(there.start)
        key = json.dumps(name, ensure_ascii=False)
        if there.members and newline not in text[there.start : there.end]:
            return f"{text[: there.last]}, {key}: {json.dumps(value, ensure_ascii=False)}{text[there.last :]}"
        # Behind the comments that follow the last member, in front of the closing brace.
        end = len(text[: there.end].rstrip())
        has_comma = "," in _COMMENT.sub(_blank, text[there.last : there.end])
        comma = "," if there.members and not has_comma else ""
        indent = outer + self._unit
        member = f"{newline}{indent}{key}: {self._dumped(value, indent)}{newline}{outer}"
        return f"{text[: there.last]}{comma}{text[there.last : end]}{member}{text[there.end :]}"

    def _dumped(self, value: JSON, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit).split("\n")
        return f"{self._newline}{indent}".join(lines)

    def _indent(self, place: int) -> str:
        """The white space that the line of a place begins with."""
        line = self._text[self._text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip())]

    def _skip(self, place: int) -> int:
        found = re.compile(r"\S|\Z").search(self._plain, place)
        assert found is not None
        return found.start()
