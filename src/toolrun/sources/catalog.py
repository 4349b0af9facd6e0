"""Tools declared as data: JSON, YAML and TOML files, and the tools made of them.

`read_catalog` reports the problems of an entry and continues with the next. `declared_tool` makes a tool from an entry.
This module does not know which handlers exist: each call looks its handler up in the caller's mappings, so a handler
may be registered after the tool that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolrun.builtins import Handler
from toolrun.config.parse import parse_json, parse_toml, parse_yaml, plain, read_text
from toolrun.config.value_type import EFFECTS, SECONDS, TEXT, ValueType
from toolrun.errors import ConfigError, DefinitionError, SideEffects, ToolError
from toolrun.json import JSON, Schema
from toolrun.sources.command_declaration import COMMAND_KEYS, CommandDeclaration, read_command
from toolrun.sources.load_problem import LoadProblem
from toolrun.sources.mock import MOCK_KEYS, Mock, read_mock
from toolrun.text import show, suggestion
from toolrun.tools.effects import Effects
from toolrun.tools.key_argument import KeyArgument
from toolrun.tools.protocol import check_name

_PARSERS: Mapping[str, Callable[[str], object]] = {
    ".json": parse_json,
    ".toml": parse_toml,
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
}
_TYPES = ("mock", "builtin", "internal", "command")
_KEYS = ("name", "description", "parameters", "implementation", "timeout", "effects")
_KEYS_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "mock": MOCK_KEYS,
    "builtin": ("handler",),
    "internal": ("handler",),
    "command": COMMAND_KEYS,
}
_IMPLEMENTATION_KEYS = ("type", *MOCK_KEYS, "handler", *COMMAND_KEYS)


@dataclass(frozen=True, slots=True)
class Implementation:
    """What answers a call."""

    type: str
    """`mock`, `builtin`, `internal` or `command`."""
    handler: str = ""
    mock: Mock | None = None
    command: CommandDeclaration | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool as a catalog file declares it."""

    name: str
    description: str
    parameters: Schema
    implementation: Implementation
    timeout: float | None = None
    effects: Effects | None = None
    source: Path | None = field(default=None, compare=False)
    """The file that declares it."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a file declares, and what is wrong with it."""

    declarations: tuple[Declaration, ...] = ()
    problems: tuple[LoadProblem, ...] = ()


def read_catalog(path: Path) -> Catalog:
    """The declarations of one file. Does not raise: `problems` has what is wrong with the file or an entry."""
    try:
        parse = _PARSERS.get(path.suffix.lower())
        if parse is None:
            raise ConfigError(f"is not a catalog; the name of a catalog ends in {', '.join(_PARSERS)}")
        entries, remarks = _entries(parse(read_text(path)))
    except ConfigError as error:
        return Catalog(problems=(LoadProblem(path, None, "", str(error)),))
    declarations: list[Declaration] = []
    problems = [LoadProblem(path, None, "", remark) for remark in remarks]
    for index, entry in enumerate(entries):
        found = _read_entry(entry)
        if isinstance(found, Declaration):
            declarations.append(replace(found, source=path))
        else:
            name = entry.get("name") if isinstance(entry, dict) else None
            problems += [LoadProblem(path, index, name if isinstance(name, str) else "", message) for message in found]
    return Catalog(tuple(declarations), tuple(problems))


def _entries(content: object) -> tuple[list[object], list[str]]:
    """The entries of a file in any of its three forms, and remarks on unknown keys."""
    if isinstance(content, list):
        return content, []
    if not isinstance(content, dict) or not content:
        raise ConfigError("declares no tools; write a list of tools, an object with 'tools', or one tool")
    if "tools" not in content:
        if "name" in content or "implementation" in content:
            return [content], []
        key = str(next(iter(content)))
        raise ConfigError(f"unknown key '{key}'; {suggestion(key, [*_KEYS, 'tools'])}")
    tools = content["tools"]
    if not isinstance(tools, list):
        raise ConfigError(f"'tools' must be a list of tools, got {show(tools)}")
    return tools, [f"unknown key '{key}' beside 'tools'; remove it" for key in content if key != "tools"]


def _read_entry(raw: object) -> Declaration | list[str]:
    """The declaration, or all its problems."""
    try:
        entry = plain(raw)
    except ConfigError as error:
        return [str(error)]
    if not isinstance(entry, dict):
        return [f"a tool must be an object with 'name', 'description' and 'implementation', got {show(entry)}"]
    problems = [f"unknown key '{key}'; {suggestion(key, _KEYS)}" for key in entry if key not in _KEYS]
    name = _text(entry, "name", "give the tool one", problems)
    try:
        check_name(name or "unnamed")
    except DefinitionError as error:
        problems.append(str(error))
    description = _text(entry, "description", "a model chooses the tool by it", problems)
    parameters = _parameters(entry.get("parameters", {}), problems)
    implementation = _implementation(entry.get("implementation"), parameters, problems)
    for key, value_type in (("timeout", SECONDS), ("effects", EFFECTS)):
        _check(entry, key, value_type, problems)
    if problems:
        return problems
    timeout = entry.get("timeout")
    return Declaration(
        name,
        description,
        parameters,
        implementation,
        timeout=float(timeout) if isinstance(timeout, (int, float)) else None,
        effects=Effects(str(entry["effects"]).lower()) if "effects" in entry else None,
    )


def _check(entry: dict[str, JSON], key: str, value_type: ValueType, problems: list[str]) -> bool:
    if key in entry and not value_type.accepts(entry[key]):
        problems.append(f"'{key}' must be {value_type.words}, got {show(entry[key])}")
        return False
    return True


def _text(entry: dict[str, JSON], key: str, hint: str, problems: list[str]) -> str:
    value = entry.get(key, "")
    if _check(entry, key, TEXT, problems) and not str(value).strip():
        problems.append(f"'{key}' is missing; {hint}")
    return value if isinstance(value, str) else ""


def _parameters(schema: JSON, problems: list[str]) -> Schema:
    """The JSON Schema of the arguments, which are always an object. The manager checks whether it compiles."""
    if not isinstance(schema, dict):
        problems.append(f"'parameters' must be a JSON Schema object, got {show(schema)}")
        return {}
    if not schema:
        return {"type": "object"}
    if "type" not in schema and "properties" in schema:
        return {"type": "object", **schema}
    if schema.get("type") != "object":
        problems.append(
            "'parameters' must be a JSON Schema of type object: "
            '{"type": "object", "properties": {NAME: {"type": …}}, "required": [NAME]}'
        )
    return schema


def _implementation(value: JSON, parameters: Schema, problems: list[str]) -> Implementation:
    invalid = Implementation("")
    if not isinstance(value, dict):
        got = "is missing" if value is None else f"must be an object, got {show(value)}"
        problems.append(f'\'implementation\' {got}; write for instance {{"type": "builtin", "handler": "echo"}}')
        return invalid
    for key in value:
        if key not in _IMPLEMENTATION_KEYS:
            problems.append(f"unknown key '{key}' in 'implementation'; {suggestion(key, _IMPLEMENTATION_KEYS)}")
    type_name, handler = value.get("type"), value.get("handler", "")
    if not isinstance(type_name, str) or type_name not in _TYPES:
        hint = suggestion(type_name if isinstance(type_name, str) else "", _TYPES)
        problems.append(f"unknown implementation type {show(type_name)}; {hint}")
        return invalid
    for key in value:
        if key in _IMPLEMENTATION_KEYS and key not in ("type", *_KEYS_OF_TYPE[type_name]):
            problems.append(f"'{key}' does not apply to the type '{type_name}'; remove it")
    try:
        if type_name == "mock":
            return Implementation(type_name, mock=read_mock(value))
        if type_name == "command":
            return Implementation(type_name, command=read_command(value, parameters))
    except DefinitionError as error:
        problems.append(str(error))
        return invalid
    if not isinstance(handler, str):
        problems.append(f"'handler' must be the name of a handler, got {show(handler)}")
        return invalid
    if not handler:
        problems.append(f"type {show(type_name)} needs 'handler': the name of the handler that answers")
    return Implementation(type_name, handler)


class DeclaredTool:
    """A tool made from a declaration."""

    __slots__ = (
        "_handlers",
        "_implementation",
        "description",
        "effects",
        "inline",
        "key_argument",
        "name",
        "schema",
        "source",
        "timeout",
    )

    def __init__(self, declaration: Declaration, handlers: Mapping[str, Handler]) -> None:
        self.name = declaration.name
        self.description = declaration.description
        self.schema = declaration.parameters
        self.timeout = declaration.timeout
        self.effects = declaration.effects
        self.source = declaration.source
        self.key_argument: KeyArgument | None = None
        mock = declaration.implementation.mock
        self.inline = mock is not None and not mock.waits
        """Runs on the event loop although it is not async: copying the response is faster than using a thread."""
        self._implementation = declaration.implementation
        self._handlers = handlers

    @property
    def kind(self) -> str:
        """`mock`, `builtin` or `internal`."""
        return self._implementation.type

    @property
    def is_async(self) -> bool:
        """Whether `invoke` returns an awaitable. Without a handler it does not: `invoke` raises at once."""
        if self._implementation.mock is not None:
            return self._implementation.mock.waits
        handler = self._handlers.get(self._implementation.handler)
        return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004  an object may have an async __call__
        )

    @property
    def builtin(self) -> str | None:
        """The name of the handler, if it is one that ships with toolrun."""
        return self._implementation.handler if self._implementation.type == "builtin" else None

    @property
    def missing_handler(self) -> Implementation | None:
        """What it is implemented by, if there is no such handler at this moment."""
        implementation = self._implementation
        is_there = implementation.mock is not None or implementation.handler in self._handlers
        return None if is_there else implementation

    def invoke(self, arguments: dict[str, JSON]) -> object:
        """The mock response, or whatever the handler returns, an awaitable included."""
        if self._implementation.mock is not None:
            return self._implementation.mock.invoke(arguments)
        name = self._implementation.handler
        handler = self._handlers.get(name)
        if handler is None:
            type_name = self._implementation.type
            raise ToolError(
                f"{type_name.capitalize()} handler '{name}' not found",
                side_effects=SideEffects.NOT_STARTED,
                detail=f"Of the {type_name} handlers, {suggestion(name, self._handlers, limit=3)}",
            )
        return handler(arguments)

    def __repr__(self) -> str:
        return f"<DeclaredTool {self.name!r} {self._implementation.type}>"


def declared_tool(
    declaration: Declaration, *, builtins: Mapping[str, Handler], internals: Mapping[str, Handler]
) -> DeclaredTool:
    """The tool that a declaration describes."""
    handlers: Mapping[str, Mapping[str, Handler]] = {"mock": {}, "builtin": builtins, "internal": internals}
    return DeclaredTool(declaration, handlers[declaration.implementation.type])
