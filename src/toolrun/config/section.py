"""The sections of toolrun.toml: the keys of each, the types of their values, and the field of `Config` that holds them.

A new section needs a class and a field of `Config` in model.py, and a line in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from toolrun.config.model import (
    ApprovalSettings,
    EnvironmentSettings,
    FileSettings,
    JournalSettings,
    Limits,
    LogSettings,
    McpSettings,
    ModelSettings,
    ServerSettings,
    ServeSettings,
    TelemetrySettings,
    ToolSettings,
    TrustSettings,
    VoiceSettings,
    WorkerSettings,
)
from toolrun.config.value_type import (
    ACTION,
    DELAYS,
    EFFECTS,
    ENGINE,
    LEASE,
    PATTERNS,
    RESOURCES,
    SANDBOX,
    SECONDS,
    TEXT,
    TEXT_TABLE,
    VALUE_TYPES,
    ValueType,
    count,
    one_of,
)

Address: TypeAlias = tuple[str, str, str]
"""Section, name within a named section (else empty), key."""
Values: TypeAlias = dict[Address, object]


class Section(NamedTuple):
    """One section of the file: a `[title]`, or, if named, any number of `[title.NAME]`."""

    field: str
    """The field of `Config` that holds it."""
    shape: type[Any]
    keys: Mapping[str, ValueType]
    named: bool = False

    @property
    def own(self) -> set[str]:
        """The keys that are fields of `Config` and not of the section's dataclass."""
        return set(self.keys) - {item.name for item in fields(self.shape)}


def _section(field: str, shape: type[Any], *, named: bool = False, **special: ValueType) -> Section:
    """The keys are the fields of the dataclass, each with the type of its annotation unless `special` has another."""
    keys = {item.name: special.get(item.name) or VALUE_TYPES[item.type] for item in fields(shape)}
    return Section(field, shape, special | keys, named)


SECTIONS: Mapping[str, Section] = {
    "executor": _section("limits", Limits, timeout=SECONDS, max_queue=count(0)),
    "environment": _section("environment", EnvironmentSettings),
    "tools": _section("files", FileSettings, python=PATTERNS, catalogs=PATTERNS),
    "tool": _section(
        "tool",
        ToolSettings,
        named=True,
        approval=ACTION,
        effects=EFFECTS,
        verify=TEXT,
        sandbox=SANDBOX,
        engine=ENGINE,
        resources=RESOURCES,
        retries=count(0),
    ),
    "workers": _section(
        "workers",
        WorkerSettings,
        sandbox=SANDBOX,
        sandbox_required=one_of("namespaces", "bubblewrap", "landlock", "none"),
        engine=ENGINE,
        lease=LEASE,
    ),
    "mcp": _section("mcp", McpSettings, delays=DELAYS),
    "servers": _section(
        "servers",
        ServerSettings,
        named=True,
        env=TEXT_TABLE,
        headers=TEXT_TABLE,
        parameters=TEXT_TABLE,
        transport=one_of("stdio", "http", "sse"),
        sandbox=SANDBOX,
    ),
    "serve": _section("serve", ServeSettings),
    "model": _section("model", ModelSettings),
    "voice": _section(
        "voice",
        VoiceSettings,
        mode=one_of("queue", "barge_in"),
        delays=DELAYS,
        speech_in=one_of("sphinx", "whisper"),
        speech_out=one_of("", "espeak", "piper"),
    ),
    "journal": _section(
        "journal", JournalSettings, durability=one_of("process", "power"), answers=one_of("plain", "all", "none")
    ),
    "approval": _section("approval", ApprovalSettings, default=one_of("destructive", "allow", "ask", "deny")),
    "trust": _section("trust", TrustSettings, on_change=one_of("ask", "warn", "refuse")),
    "telemetry": _section("telemetry", TelemetrySettings),
    "log": _section(
        "log", LogSettings, level=one_of("debug", "info", "warning", "error"), format=one_of("text", "json")
    ),
}


def fields_of_config(given: Values) -> dict[str, Any]:
    """The fields of `Config` for which there are values."""
    tables: dict[tuple[str, str], dict[str, object]] = {}
    for (title, name, key), value in given.items():
        tables.setdefault((title, name), {})[key] = value
    parts: dict[str, Any] = {}
    named: dict[str, dict[str, object]] = {}
    for (title, name), values in tables.items():
        section = SECTIONS[title]
        parts |= {key: values.pop(key) for key in section.own & values.keys()}
        if section.named:
            named.setdefault(section.field, {})[name] = section.shape(**values)
        else:
            parts[section.field] = section.shape(**values)
    return parts | {place: MappingProxyType(entries) for place, entries in named.items()}
