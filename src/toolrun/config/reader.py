"""Reads the layers of a configuration, a file, the environment, overrides, into checked values; collects mistakes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolrun.config.parse import parse_toml, read_text
from toolrun.config.section import SECTIONS, Address, Values
from toolrun.config.variables import expand
from toolrun.errors import ConfigError
from toolrun.json import JSON
from toolrun.text import show, suggestion

if TYPE_CHECKING:
    from pathlib import Path


def read_document(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _heading(title: str, name: str) -> str:
    if not name:
        return f"[{title}]"
    return f"[{title}.{name}]" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'[{title}."{name}"]'


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """Reads each layer into values by address, and collects the problems."""

    source: str
    root: Path
    environ: Mapping[str, str]
    problems: list[str]
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    """Servers that need a variable that is not set: section and name, and the reason."""
    secret_files: list[Path] = field(default_factory=list)

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
        if title == "servers" and not table:
            self.missing[title, name] = f"{heading} needs either 'command' or 'url'"
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
            wrong = value_type.explain(value)
            self.problems.append(f"{subject} must be {value_type.words}, got {f'{wrong} in ' if wrong else ''}{got}")

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
        self.secret_files.append(path)
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
