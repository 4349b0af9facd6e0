"""What a provider of models takes, and in which form. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolrun.clients.dialect.schema_parser import Note
from toolrun.json import JSON, Schema
from toolrun.tools.naming import NameRule

Adapt: TypeAlias = Callable[[Mapping[str, JSON], Note], tuple[Schema, list[str]]]
"""Makes of the schema of a tool's arguments one that the provider takes, and words for the description of the tool."""


@dataclass(frozen=True, slots=True)
class Level:
    """What is kept of a schema at some place in it."""

    keywords: frozenset[str] | None = None
    """`None`: all."""
    formats: Mapping[str, frozenset[str]] | None = None
    """The formats that a type may have; `None`: all."""
    is_typed: bool = False
    """As Gemini has it: everything has exactly one type, options are strings, objects have properties, and what is one
    of several has nothing beside `anyOf`."""
    needs_items: bool = False
    """Whether a list has to say what is in it."""

    def keeps(self, keyword: str) -> bool:
        return self.keywords is None or keyword in self.keywords


@dataclass(frozen=True, slots=True)
class Keeps:
    """What is kept of a parameter, and of what is inside it."""

    parameter: Level
    inside: Level


@dataclass(frozen=True, slots=True)
class Dialect:
    """How tools are told to a provider."""

    title: str
    names: NameRule
    parameters: NameRule | None
    """What the names of parameters may be; `None`: anything."""
    adapt: Adapt
    render: Callable[[str, str, Schema], dict[str, JSON]]
    """Name, description and schema in the form of the provider."""
    parses_text: bool = False
    """Whether arguments that are text arrive parsed if they look like JSON."""
