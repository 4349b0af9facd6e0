"""What each provider supports of JSON Schema, and the format in which it takes tools. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolrun.clients.dialect.schema_parser import Note
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule

Adapt: TypeAlias = Callable[[Mapping[str, JSON], Note], tuple[Schema, list[str]]]
"""Rewrites the schema of a tool's arguments for the provider. Also returns phrases for the description of the tool."""


@dataclass(frozen=True, slots=True)
class KeywordSupport:
    """What a provider supports at one place of a schema."""

    keywords: frozenset[str] | None = None
    """`None`: all of them."""
    formats: Mapping[str, frozenset[str]] | None = None
    """The values of `format` by type; `None`: all of them."""
    needs_single_type: bool = False
    """Gemini's rules: every schema has exactly one type or only `anyOf`, enums have strings, and objects have
    properties."""
    needs_items: bool = False
    """Whether an array must have `items`."""

    def includes(self, keyword: str) -> bool:
        return self.keywords is None or keyword in self.keywords


@dataclass(frozen=True, slots=True)
class SchemaSupport:
    """What a provider supports of a parameter, and of the schemas nested in it."""

    parameter: KeywordSupport
    nested: KeywordSupport


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format in which a provider takes tools."""

    title: str
    name_rule: NameRule
    parameter_rule: NameRule | None
    """The rule for the names of parameters; `None`: any name will do."""
    adapt: Adapt
    render: Callable[[str, str, Schema], dict[str, JSON]]
    """Name, description and schema in the format of the provider."""
    parses_text: bool = False
    """Whether the client library parses string arguments that look like JSON."""
