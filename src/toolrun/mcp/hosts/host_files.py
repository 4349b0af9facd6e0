"""The files in which other programs keep their MCP servers: where they are, and what they contain. Starts nothing.

Claude (Code and Desktop), Cursor and VS Code each have their own syntax for references to variables. It is translated
to toolrun's `${VAR}` first, which is also what `toolrun import` copies; then the references are replaced, server by
server: one whose variable is missing is reported, and the others can be used.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from toolrun.config.model import ServerSettings
from toolrun.config.parse import read_text
from toolrun.config.variables import expand
from toolrun.errors import ConfigError
from toolrun.hidden_characters import has_hidden, reveal
from toolrun.json import JSON
from toolrun.mcp.hosts import jsonc
from toolrun.text import show

SECTIONS: Final = ("mcpServers", "servers")
"""The keys that hold the servers: the first everywhere but in VS Code."""
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_REFERENCE: Final = re.compile(r"\$\{([^}]*)\}")
_OWN_FORM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(:-.*)?", re.DOTALL)
_PROJECT_FOLDERS: Final = (".vscode", ".cursor")


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file in which a program looks for its servers."""

    client: str
    path: Path


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server in such a file."""

    name: str
    settings: ServerSettings
    """With references to variables as `${VAR}`."""
    problem: str = ""
    """Why it cannot be used."""
    note: str = ""
    """What toolrun does not support of it."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Variables that stand for an input of VS Code, each with its description."""


def host_files(root: Path, environ: Mapping[str, str], platform: str = sys.platform) -> list[HostFile]:
    """The files of a project, and those of the user. Not all of them need to exist."""
    home = Path(environ.get("HOME") or Path.home())
    return [
        HostFile("claude-code", root / ".mcp.json"),
        HostFile("vscode", root / ".vscode" / "mcp.json"),
        HostFile("cursor", root / ".cursor" / "mcp.json"),
        HostFile("claude-desktop", _applications(home, environ, platform) / "Claude" / "claude_desktop_config.json"),
        HostFile("vscode", _applications(home, environ, platform) / "Code" / "User" / "mcp.json"),
        HostFile("cursor", home / ".cursor" / "mcp.json"),
    ]


def _applications(home: Path, environ: Mapping[str, str], platform: str) -> Path:
    """Where applications keep their settings."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def read_file(path: Path) -> list[FoundServer]:
    """The servers of a file. Raises ConfigError for one that cannot be read."""
    try:
        document = jsonc.parse(read_text(path))
        if not isinstance(document, dict):
            raise ConfigError("is not a JSON object")
        section = next((key for key in SECTIONS if key in document), None)
        entries = document.get(section, {}) if section else {}
        if not isinstance(entries, dict):
            raise ConfigError(f"has something other than an object under '{section}'")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    questions = document.get("inputs")
    reader = _EntryReader(_folder(path), _is_of_project(path), questions if isinstance(questions, list) else [])
    return [reader.server(name, entry) for name, entry in entries.items()]


def read_servers(path: Path, environ: Mapping[str, str]) -> tuple[dict[str, ServerSettings], dict[str, str]]:
    """The servers of a file ready to be used, and why the others are not. Raises ConfigError for an unreadable file.

    toolrun itself, which `toolrun install` may have written there, is neither.
    """
    ready: dict[str, ServerSettings] = {}
    problems: dict[str, str] = {}
    for server in read_file(path):
        if starts_toolrun(server.settings):
            continue
        settings, problem = expanded(server, environ)
        if problem:
            problems[server.name] = problem
        else:
            ready[server.name] = settings
    return ready, problems


def expanded(server: FoundServer, environ: Mapping[str, str]) -> tuple[ServerSettings, str]:
    """The settings with the values of all variables, and what is wrong with them, if anything is."""
    problems = [server.problem] if server.problem else []

    def value(where: str, text: str) -> str:
        found, faults = expand(text, environ)
        problems.extend(f"{where} {fault}" for fault in faults)
        return found

    def table(where: str, texts: Mapping[str, JSON]) -> Mapping[str, JSON]:
        return MappingProxyType({key: value(f"{where}.{key}", str(text)) for key, text in texts.items()})

    given = server.settings
    settings = replace(
        given,
        command=value("command", given.command),
        args=tuple(value(f"args[{index}]", text) for index, text in enumerate(given.args)),
        env=table("env", given.env),
        cwd=value("cwd", given.cwd),
        url=value("url", given.url),
        headers=table("headers", given.headers),
    )
    asked = [f"{name} stands for: {question}" for name, question in server.inputs.items() if name not in environ]
    return settings, "; ".join(dict.fromkeys([*problems, *asked] if problems else []))


def hidden_in(server: FoundServer) -> list[str]:
    """Where the entry of a server has characters that people do not see: `args[1]`, `env.PATH`."""
    given = server.settings
    texts = {"its name": server.name, "command": given.command, "cwd": given.cwd, "url": given.url}
    texts |= {f"args[{index}]": text for index, text in enumerate(given.args)}
    tables = {"env": given.env, "headers": given.headers}
    texts |= {f"{title}.{key}": f"{key}{text}" for title, table in tables.items() for key, text in table.items()}
    return [reveal(where) for where, text in texts.items() if has_hidden(text)]


def starts_toolrun(settings: ServerSettings) -> bool:
    """Whether it is what `toolrun install` writes, or the same by way of `uvx`."""
    words = [settings.command, *settings.args]
    return "serve" in words and any(re.fullmatch(r"toolrun(\[.*\])?", Path(word).stem) for word in words)


def _folder(path: Path) -> Path:
    """The folder that is open in the editor while the file is used."""
    parent = path.absolute().parent
    return parent.parent if parent.name in _PROJECT_FOLDERS else parent


def _is_of_project(path: Path) -> bool:
    """Whether its servers are started in that folder; those of the user are started anywhere."""
    return path.name == ".mcp.json" or path.absolute().parent.name in _PROJECT_FOLDERS


@dataclass(frozen=True, slots=True)
class _EntryReader:
    """Reads the entries of one file."""

    folder: Path
    is_of_project: bool
    questions: list[JSON]

    def server(self, name: str, entry: object) -> FoundServer:
        if not isinstance(entry, dict):
            return FoundServer(name, ServerSettings(), f"must be an object, got {show(entry)}")
        problems: list[str] = []
        asked: dict[str, str] = {}

        def text(where: str, value: object) -> str:
            if isinstance(value, bool):
                value = str(value).lower()
            elif isinstance(value, int | float):
                value = str(value)
            if not isinstance(value, str):
                problems.append(f"{where} must be a string, got {show(value)}")
                return ""
            return self._translated(where, value, problems, asked)

        def table(key: str) -> Mapping[str, JSON]:
            found = entry.get(key) or {}
            if not isinstance(found, dict):
                problems.append(f"{key} must be an object, got {show(found)}")
                return {}
            return {inner: text(f"{key}.{inner}", value) for inner, value in found.items() if value is not None}

        args = entry.get("args") or []
        if not isinstance(args, list):
            problems.append(f"args must be a list, got {show(args)}")
            args = []
        url = next((text(key, entry[key]) for key in ("url", "serverUrl", "httpUrl") if entry.get(key)), "")
        command = text("command", entry.get("command") or "")
        settings = ServerSettings(
            command=command,
            args=tuple(text(f"args[{index}]", value) for index, value in enumerate(args)),
            env=table("env"),
            cwd=self._directory(text("cwd", entry.get("cwd") or ""), bool(command)),
            url=url,
            transport=_transport(entry, command, url, problems),
            headers=table("headers"),
            enabled=entry.get("disabled") is not True and entry.get("enabled") is not False,
        )
        if has_hidden(name):
            problems.append(f"has hidden characters in its name, {reveal(name)}; rename it there")
        if starts_toolrun(settings):
            problems.append("starts toolrun itself, which would start itself again and again")
        note = "its envFile is not read: put those variables under env" if entry.get("envFile") else ""
        return FoundServer(name, settings, "; ".join(problems), note, asked)

    def _directory(self, cwd: str, has_command: bool) -> str:
        """In the file, relative paths start from its folder; in toolrun they start from that of toolrun.toml."""
        if cwd:
            return cwd if cwd.startswith("${") else str(self.folder / cwd)
        return str(self.folder) if has_command and self.is_of_project else ""

    def _translated(self, where: str, text: str, problems: list[str], asked: dict[str, str]) -> str:
        """The text with all references in toolrun's own form."""

        def own(match: re.Match[str]) -> str:
            body = match[1]
            kind, _, name = body.partition(":")
            fixed = {
                "workspaceFolder": str(self.folder),
                "workspaceFolderBasename": self.folder.name,
                "pathSeparator": os.sep,
                "/": os.sep,
            }
            if body in fixed:
                return fixed[body].replace("${", "$${")
            if body == "userHome":
                return "${HOME}"
            if kind == "env" and _OWN_FORM.fullmatch(name):
                return f"${{{name}}}"
            if kind == "input" and name:
                return self._input(name, asked)
            if not _OWN_FORM.fullmatch(body):
                problems.append(f"{where} has ${{{body}}}, which only its own program knows; write the value instead")
            return match[0]

        return _REFERENCE.sub(own, text)

    def _input(self, name: str, asked: dict[str, str]) -> str:
        """VS Code asks its user; here a variable answers: `${input:api-key}` is `${API_KEY}`."""
        variable = variable_name(name)
        question = next((it for it in self.questions if isinstance(it, dict) and it.get("id") == name), {})
        assert isinstance(question, dict)
        asked[variable] = str(question.get("description") or f"the input '{name}'")
        default = question.get("default")
        is_usable = isinstance(default, str) and default and not set("${}") & set(default)
        return f"${{{variable}:-{default}}}" if is_usable else f"${{{variable}}}"


def _transport(entry: dict[str, JSON], command: str, url: str, problems: list[str]) -> str:
    """Empty if the other settings imply it."""
    if not command and not url:
        problems.append("has neither a command nor a url")
    given = entry.get("type") or entry.get("transport")
    if given is None:
        return "sse" if not command and url.rstrip("/").endswith("/sse") else ""
    found = _TRANSPORTS.get(str(given).lower())
    if found is None:
        problems.append(f"has the type {show(given)}; known are stdio, http and sse")
        return ""
    if found != "sse" and bool(command) != (found == "stdio"):
        problems.append(f"has the type {show(given)}, but {'a command' if command else 'a url'}")
    return found if found == "sse" else ""


def variable_name(text: str) -> str:
    """A name for an environment variable: `api-key` → `API_KEY`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper() or "VALUE"
    return f"_{name}" if name[0].isdigit() else name


def existing(files: list[HostFile]) -> Iterator[HostFile]:
    """The files that exist, each once."""
    seen: set[Path] = set()
    for file in files:
        if file.path.is_file() and file.path.resolve() not in seen:
            seen.add(file.path.resolve())
            yield file
