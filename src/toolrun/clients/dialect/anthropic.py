"""Anthropic's messages.

JSON Schema of 2020-12 is taken whole, but for the root: it has to be an object with nothing combined, and the names of
the parameters have a rule. One tool that breaks these, and the request with all the others is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect, Level
from toolrun.clients.dialect.schema_parser import Note
from toolrun.clients.dialect.simplify import flatten
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return flatten(schema, Level(), note)


def _render(name: str, description: str, schema: Schema) -> dict[str, JSON]:
    return {"name": name, "description": description, "input_schema": schema}


ANTHROPIC: Final = Dialect("Anthropic", NameRule("A-Za-z0-9_-"), NameRule("A-Za-z0-9_.-"), _adapt, _render)
