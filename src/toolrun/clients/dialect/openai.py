"""OpenAI's chat completions, and the many servers that speak like them.

JSON Schema is taken nearly whole, but with an object at the root, nothing combined there, and `items` in every list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect, Level
from toolrun.clients.dialect.qwen import render
from toolrun.clients.dialect.schema_parser import Note
from toolrun.clients.dialect.simplify import flatten
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule

_LEVEL: Final = Level(needs_items=True)


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return flatten({"properties": {}, **schema}, _LEVEL, note)


OPENAI: Final = Dialect("OpenAI", NameRule("A-Za-z0-9_-"), None, _adapt, render)
