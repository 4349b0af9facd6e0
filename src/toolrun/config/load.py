"""toolrun.toml + environment + flags → one frozen `Config`.

Knows the sections, their keys and the type of each value; knows nothing of the tools, the executor or the log that use
them. The environment is an argument, not `os.environ`. All mistakes of a configuration are reported together.

A new section needs a dataclass and a field of `Config` in model.py, and a line in `SECTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from toolrun.config.model import (
    Config,
    FileSettings,
    Limits,
    LogSettings,
    McpSettings,
    ModelSettings,
    ServerSettings,
    ServeSettings,
    ToolSettings,
    VoiceSettings,
    WorkerSettings,
)
from toolrun.config.parse import parse_toml, read_text
from toolrun.config.value_type import DELAYS, PATTERNS, SECONDS, TEXT_TABLE, VALUE_TYPES, ValueType, count, one_of
from toolrun.config.variables import expand
from toolrun.errors import ConfigError
from toolrun.json import JSON
from toolrun.text import show, suggestion

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "toolrun.toml"


@dataclass(frozen=True, slots=True)
class Section:
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
    "tools": _section("files", FileSettings, python=PATTERNS, catalogs=PATTERNS),
    "tool": _section("tool", ToolSettings, named=True),
    "workers": _section("workers", WorkerSettings),
    "mcp": _section("mcp", McpSettings, delays=DELAYS),
    "servers": _section(
        "servers",
        ServerSettings,
        named=True,
        env=TEXT_TABLE,
        headers=TEXT_TABLE,
        parameters=TEXT_TABLE,
        transport=one_of("stdio", "http", "sse"),
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
    "log": _section(
        "log", LogSettings, level=one_of("debug", "info", "warning", "error"), format=one_of("text", "json")
    ),
}

Address: TypeAlias = tuple[str, str, str]
"""Section, name within a named section (else empty), key."""
Values: TypeAlias = dict[Address, object]

_NOTHING: Mapping[str, JSON] = MappingProxyType({})


def find_config(start: Path) -> Path | None:
    """The `toolrun.toml` in a directory or the nearest one above it."""
    start = start.resolve()
    for directory in (start, *start.parents):
        with suppress(OSError):  # no permission to enter the directory
            if (directory / FILE_NAME).is_file():
                return directory / FILE_NAME
    return None


def load_config(path: Path | None, *, environ: Mapping[str, str], overrides: Mapping[str, JSON] = _NOTHING) -> Config:
    """Defaults < file < environment < overrides. An override is a dotted key; `None` means that it is not set."""
    from pathlib import Path

    path = path.absolute() if path is not None else None
    root = path.parent if path is not None else Path.cwd()
    document = _read_document(path) if path is not None else {}
    reader = _Reader(str(path or "the configuration"), root, environ, [])
    table = document.pop("secrets", {})
    secrets, missing = reader.secrets(table)
    given = reader.file(document) | reader.variables() | reader.overrides(overrides)
    given = {address: value for address, value in given.items() if address[:2] not in reader.missing}
    reader.check_grants(given, set(table) if isinstance(table, dict) else set())
    if len(reader.problems) == 1:
        raise ConfigError(reader.problems[0])
    if reader.problems:
        listed = "".join(f"\n- {problem}" for problem in reader.problems)
        raise ConfigError(f"the configuration has {len(reader.problems)} problems:{listed}")
    return Config(
        path=path,
        root=root,
        secrets=MappingProxyType(secrets),
        missing_secrets=MappingProxyType(missing),
        missing_servers=MappingProxyType({name: reason for (_, name), reason in reader.missing.items()}),
        **_parts(given),
    )


def _read_document(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parts(given: Values) -> dict[str, Any]:
    """The fields of `Config` that were set."""
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


def _heading(title: str, name: str) -> str:
    if not name:
        return f"[{title}]"
    return f"[{title}.{name}]" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'[{title}."{name}"]'


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads each layer into values by address, and collects the problems."""

    source: str
    root: Path
    environ: Mapping[str, str]
    problems: list[str]
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    """Servers that need a variable that is not set: section and name, and the reason."""

    def file(self, document: dict[str, Any]) -> Values:
        values: Values = {}
        for title, content in document.items():
            section = SECTIONS.get(title)
            if section is None:
                self._unknown_section(title, content)
            elif not isinstance(content, dict):
                self.problems.append(f"[{title}] must be a table, got {show(content)} in {self.source}")
            elif not section.named:
                values |= self._table(title, "", content)
            else:
                for name, table in content.items():
                    values |= self._named_table(title, name, table)
        return values

    def _unknown_section(self, title: str, content: object) -> None:
        homes = [home for home, section in SECTIONS.items() if title in section.keys and not section.named]
        if homes and not isinstance(content, dict):
            self.problems.append(f"unknown key '{title}' at the top of {self.source}; it belongs in [{homes[0]}]")
        else:
            hint = suggestion(title, [*SECTIONS, "secrets"])
            self.problems.append(f"unknown section '{title}' in {self.source}; {hint}")

    def _named_table(self, title: str, name: str, table: object) -> Values:
        if isinstance(table, dict):
            return self._table(title, name, table)
        heading = _heading(title, name)
        self.problems.append(
            f"{heading} must be a table, got {show(table)} in {self.source}; settings go below a [{title}.NAME]"
        )
        return {}

    def _table(self, title: str, name: str, table: dict[str, Any]) -> Values:
        keys, heading, values = SECTIONS[title].keys, _heading(title, name), Values()
        for key, content in table.items():
            if key in keys:
                before = len(self.problems)
                expanded = self._expanded(content, f"{heading} {key}")
                if title == "servers" and len(self.problems) > before:
                    self.missing[title, name] = self.problems[before].replace(f" of {self.source}", "", 1)
                    del self.problems[before:]
                elif len(self.problems) == before:
                    subject, got = f"{heading} {key}", f"{show(content)} in {self.source}"
                    self._put(values, (title, name, key), expanded, subject, got)
                continue
            hint = suggestion(key, keys)
            if name and isinstance(content, dict):
                hint = f"a name with a dot needs quotes: {_heading(title, f'{name}.{key}')}"
            self.problems.append(f"unknown key '{key}' in {heading} of {self.source}; {hint}")
        return values

    def _expanded(self, value: Any, where: str) -> Any:
        if isinstance(value, str):
            text, problems = expand(value, self.environ)
            self.problems.extend(f"{where} of {self.source} {problem}" for problem in problems)
            return text
        if isinstance(value, list):
            return [self._expanded(item, f"{where}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._expanded(item, f"{where}.{key}") for key, item in value.items()}
        return value

    def _put(self, values: Values, address: Address, value: JSON, subject: str, got: str) -> None:
        """Check and add a value. `got` is the text as written: the expanded value may be confidential."""
        value_type = SECTIONS[address[0]].keys[address[2]]
        if value_type.accepts(value):
            values[address] = value_type.convert(value)
        else:
            self.problems.append(f"{subject} must be {value_type.words}, got {got}")

    def variables(self) -> Values:
        """`TOOLRUN_<SECTION>_<KEY>`; an empty variable counts as unset."""
        values: Values = {}
        for title, section in SECTIONS.items():
            for key, value_type in section.keys.items():
                variable = f"TOOLRUN_{title}_{key}".upper()
                text = self.environ.get(variable)
                if section.named or value_type.parse is None or not text:
                    continue
                try:
                    value = value_type.parse(text)
                except ValueError:
                    value = text
                self._put(values, (title, "", key), value, f"the variable {variable}", show(text))
        return values

    def overrides(self, overrides: Mapping[str, JSON]) -> Values:
        values: Values = {}
        for option, value in overrides.items():
            title, _, rest = option.partition(".")
            name, _, key = rest.rpartition(".")
            section = SECTIONS.get(title)
            if section is None or key not in section.keys or section.named != bool(name):
                known = [
                    f"{home}.{'NAME.' * shape.named}{key}" for home, shape in SECTIONS.items() for key in shape.keys
                ]
                self.problems.append(f"unknown option '{option}'; {suggestion(option, known)}")
            elif value is not None:
                self._put(values, (title, name, key), value, f"the option {option}", show(value))
        return values

    def secrets(self, table: object) -> tuple[dict[str, str], dict[str, str]]:
        """The resolved secrets, and the reasons for the missing ones. No message ever shows a value."""
        found: dict[str, str] = {}
        missing: dict[str, str] = {}
        if not isinstance(table, dict):
            self.problems.append(f"[secrets] must be a table of names in {self.source}")
            return found, missing
        for name, entry in table.items():
            origin, text = self._origin(entry)
            if text is None:
                forms = 'a string, { env = "VARIABLE" } or { file = "path" }'
                self.problems.append(f"[secrets] {name} must be {forms} in {self.source}")
                continue
            text, problems = expand(text, self.environ)
            value, reason = ("", f"it {problems[0]}") if problems else self._resolve(origin, text)
            if value:
                found[name] = value
            else:
                missing[name] = reason
        return found, missing

    @staticmethod
    def _origin(entry: object) -> tuple[str, str | None]:
        """Where a secret comes from; None instead of a text if the entry has none of the three forms."""
        origin, text = "text", entry
        if isinstance(entry, dict):
            origin = "env" if "env" in entry else "file"
            text = entry.get(origin) if len(entry) == 1 else None
        return origin, text if isinstance(text, str) else None

    def _resolve(self, origin: str, text: str) -> tuple[str, str]:
        """A secret's value, and the reason if it is empty: an empty secret counts as missing."""
        if origin == "text":
            return text, "it is empty"
        if origin == "env":
            state = "empty" if text in self.environ else "not set"
            return self.environ.get(text, ""), f"the variable {text} is {state}"
        path = self.root / text
        try:
            content = read_text(path)
        except ConfigError as error:
            return "", f"{path}: {error}"
        return re.sub(r"\r?\n\Z", "", content), f"{path}: is empty"

    def check_grants(self, given: Values, secrets: set[str]) -> None:
        """A tool can be granted only what [secrets] defines."""
        for (title, name, key), granted in given.items():
            if (title, key) != ("tool", "secrets") or not isinstance(granted, tuple):
                continue
            for secret in granted:
                if secret not in secrets:
                    heading, hint = _heading(title, name), suggestion(secret, secrets)
                    self.problems.append(
                        f"{heading} secrets names '{secret}', which is not in [secrets] of {self.source}; {hint}"
                    )
