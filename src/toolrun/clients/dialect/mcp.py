"""Tools as MCP lists them: the schema unchanged, except that its type is always given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect
from toolrun.clients.dialect.schema_parser import Note
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return {**schema, "type": "object"}, []


def _render(name: str, description: str, schema: Schema) -> dict[str, JSON]:
    return {"name": name, "description": description, "inputSchema": schema}


MCP: Final = Dialect("MCP", NameRule("A-Za-z0-9_.-", 128), None, _adapt, _render)
