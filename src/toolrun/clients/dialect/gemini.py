"""Gemini's function declarations, whose schemas are a subset of OpenAPI's (https://ai.google.dev/api/caching#Schema)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect, KeywordSupport, SchemaSupport
from toolrun.clients.dialect.schema_parser import Note
from toolrun.clients.dialect.simplify import simplify
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule

KEYWORDS: Final = frozenset({"type", "format", "description", "nullable", "enum", "anyOf", "pattern"}).union(
    ("items", "minItems", "maxItems", "properties", "required", "minProperties", "maxProperties"),
    ("minimum", "maximum", "minLength", "maxLength"),
)
FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_SUPPORT: Final = KeywordSupport(KEYWORDS, FORMATS, needs_single_type=True, needs_items=True)


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return simplify(schema, SchemaSupport(_SUPPORT, _SUPPORT), note)


def _render(name: str, description: str, parameters: Schema) -> dict[str, JSON]:
    """Gemini refuses an object without properties, so a tool without parameters has no schema."""
    declaration: dict[str, JSON] = {"name": name, "description": description}
    return {**declaration, "parameters": parameters} if parameters["properties"] else declaration


GEMINI: Final = Dialect(
    "Gemini",
    NameRule("A-Za-z0-9_.-", starts_with_letter=True),
    NameRule("A-Za-z0-9_", starts_with_letter=True),
    _adapt,
    _render,
)
