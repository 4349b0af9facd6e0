"""Ollama, in the format of Qwen's function calling (https://qwen.readthedocs.io/en/latest/framework/function_call.html).

Of a parameter, the package `ollama` sends `type`, `items`, `description` and `enum`, and silently drops the rest. The
package and the server both pass the content of `items` on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect, KeywordSupport, SchemaSupport
from toolrun.clients.dialect.schema_parser import Note
from toolrun.clients.dialect.simplify import simplify
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule

SUPPORT: Final = SchemaSupport(
    parameter=KeywordSupport(frozenset({"type", "items", "description", "enum"})), nested=KeywordSupport()
)


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return simplify(schema, SUPPORT, note)


def render(name: str, description: str, parameters: Schema) -> dict[str, JSON]:
    """A tool in the format of Qwen, which is also OpenAI's."""
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


QWEN: Final = Dialect("Qwen", NameRule("A-Za-z0-9_.-", 128), None, _adapt, render, parses_text=True)
