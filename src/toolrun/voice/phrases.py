"""Sentences that are spoken when something fails, chosen by the kind of error.

The sentences are in `phrases.toml`; the user's file replaces single ones. Messages of exceptions are never spoken: they
contain paths, numbers and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

from toolrun.config.parse import parse_toml, read_text
from toolrun.errors import ConfigError, ErrorKind, ToolrunError
from toolrun.result import ToolResult
from toolrun.text import show, suggestion

_SENTENCES: Final = ("not_understood", "busy", "no_answer", "unexpected")
_MODEL_ERRORS: Final = {
    "ModelUnavailableError": "unavailable",
    "ModelOverloadedError": "overloaded",
    "ModelTimeoutError": "timeout",
    "ModelAuthError": "auth",
    "ModelNotFoundError": "not_found",
    "ModelContextError": "context",
    "ModelRequestError": "request",
    "ModelProtocolError": "protocol",
    "ModelReplyError": "reply",
}
"""Classes of `toolrun.clients.model_error` by name, because the clients need optional packages."""
_TABLES: Final[Mapping[str, frozenset[str] | None]] = {
    "tool": frozenset(kind.value for kind in ErrorKind),
    "model": frozenset(_MODEL_ERRORS.values()),
    "systems": None,
}
"""The keys that each table may have; None for any."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences that are spoken when something fails."""

    not_understood: str
    busy: str
    no_answer: str
    unexpected: str
    tool: Mapping[str, str]
    """By error kind."""
    model: Mapping[str, str]
    systems: Mapping[str, str]
    """Patterns of tool names → what to call the system behind them. The first match wins."""

    @staticmethod
    def load(path: Path | None = None) -> Phrases:
        """The phrases that ship with toolrun; a file replaces single ones. Raises ConfigError."""
        ours = parse_toml(resources.files("toolrun.voice").joinpath("phrases.toml").read_text(encoding="utf-8"))
        sentences, tables = _checked(ours)
        if path is not None:
            try:
                own_sentences, own = _checked(parse_toml(read_text(path)))
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}") from None
            sentences |= own_sentences
            # The user's systems come first: the shipped ones have a pattern that matches every tool.
            tables = {title: own[title] | {**tables[title], **own[title]} for title in tables}
        return Phrases(
            **sentences,
            tool=MappingProxyType(tables["tool"]),
            model=MappingProxyType(tables["model"]),
            systems=MappingProxyType(tables["systems"]),
        )

    def for_tool(self, result: ToolResult) -> str:
        """The sentence for a failed call; empty for one that succeeded."""
        if result.error_kind is None:
            return ""
        system = next(
            (words for pattern, words in self.systems.items() if fnmatchcase(result.tool_name, pattern)), "The system"
        )
        return self.tool[result.error_kind].replace("{system}", system)

    def for_model(self, error: ToolrunError) -> str:
        """The sentence for a model that gave no answer."""
        names = (_MODEL_ERRORS.get(cls.__name__) for cls in type(error).__mro__)
        return next((self.model[name] for name in names if name), self.unexpected)


def _checked(content: Mapping[str, object]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The sentences and tables of a file. ConfigError: a key is unknown, or a value is not a sentence."""
    sentences: dict[str, str] = {}
    tables: dict[str, dict[str, str]] = {title: {} for title in _TABLES}
    for name, value in content.items():
        if name in _TABLES and isinstance(value, dict):
            known = _TABLES[name]
            for key, words in value.items():
                if known is not None and key not in known:
                    raise ConfigError(f"unknown key '{key}' in [{name}]; {suggestion(key, known)}")
                tables[name][key] = _sentence(f"[{name}] {key}", words)
        elif name in _SENTENCES:
            sentences[name] = _sentence(name, value)
        else:
            raise ConfigError(f"unknown key '{name}'; {suggestion(name, [*_SENTENCES, *_TABLES])}")
    return sentences, tables


def _sentence(place: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{place} must be a sentence, got {show(value)}")
    return value
