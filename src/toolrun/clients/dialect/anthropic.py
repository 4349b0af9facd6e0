"""Anthropic's Messages API.

It supports all of JSON Schema 2020-12, but the root must be an object without `anyOf` and the like, and the names of
parameters follow a rule. One tool that breaks a rule makes Anthropic refuse the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.clients.dialect.dialect import Dialect, KeywordSupport
from toolrun.clients.dialect.schema_parser import Note
from toolrun.clients.dialect.simplify import flatten
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule


def _adapt(schema: Mapping[str, JSON], note: Note) -> tuple[Schema, list[str]]:
    return flatten(schema, KeywordSupport(), note)


def _render(name: str, description: str, schema: Schema) -> dict[str, JSON]:
    return {"name": name, "description": description, "input_schema": schema}


ANTHROPIC: Final = Dialect("Anthropic", NameRule("A-Za-z0-9_-"), NameRule("A-Za-z0-9_.-"), _adapt, _render)
