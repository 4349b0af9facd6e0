"""OpenAI's Chat Completions API, and the many servers that are compatible with it.

It supports nearly all of JSON Schema, but the root must be an object without `anyOf` and the like, and every array
needs `items`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect, KeywordSupport
from toolrun.clients.dialect.qwen import render
from toolrun.clients.dialect.schema_parser import Note
from toolrun.clients.dialect.simplify import flatten
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule

_SUPPORT: Final = KeywordSupport(needs_items=True)


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return flatten({"properties": {}, **schema}, _SUPPORT, note)


OPENAI: Final = Dialect("OpenAI", NameRule("A-Za-z0-9_-"), None, _adapt, render)
