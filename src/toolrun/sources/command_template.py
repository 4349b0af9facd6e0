"""The command line of a tool of type `command`: parsed once, filled with the arguments of each call. Pure.

Each element becomes one argument of the program, or none; no shell reads it. What a model sends cannot become an
option: a value that starts with `-` is refused where it would be an argument of its own, unless `--` comes before it,
or the template says `{-name}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolrun.errors import DefinitionError, InvalidArgumentsError
from toolrun.json import JSON
from toolrun.text import show, suggestion

_FIELD: Final = re.compile(r"\{\{|\}\}|\{(?P<mark>[-?]?)(?P<name>[^{}]*)\}|[{}]")
_MAX_BYTES: Final = 100_000
"""Of one argument; the system takes 131,072."""
_MAX_TOTAL: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    mark: str
    """`-`: the value may start with a dash. `?`: nothing is inserted, but the value has to be true."""


@dataclass(frozen=True, slots=True)
class _Element:
    """Texts and fields, in turn, that make one argument."""

    parts: tuple[str | _Field, ...]

    @property
    def fields(self) -> list[_Field]:
        return [part for part in self.parts if isinstance(part, _Field)]


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A program and its arguments."""

    program: str
    groups: tuple[tuple[_Element, ...], ...]
    """Elements that are there together or not at all."""

    def fill(self, arguments: Mapping[str, JSON]) -> list[str]:
        """The arguments of the program. Raises InvalidArgumentsError."""
        found: list[str] = []
        is_after_options = False
        for group in self.groups:
            fields = [field for element in group for field in element.fields]
            if any(not _is_there(field, arguments) for field in fields):
                continue
            for element in group:
                found += _filled(element, arguments, is_after_options)
                is_after_options = is_after_options or element.parts == ("--",)
        if sum(len(it.encode("utf-8", "surrogatepass")) + 1 for it in found) > _MAX_TOTAL:
            raise InvalidArgumentsError(f"Invalid parameters: together they are over {_MAX_TOTAL:,} bytes")
        return found


def read_template(command: object, parameters: Mapping[str, JSON]) -> CommandTemplate:
    """Raises DefinitionError for a command that could never run."""
    if not isinstance(command, list) or not command or not isinstance(command[0], str) or not command[0].strip():
        raise DefinitionError(
            '\'command\' must be a list: the program and its arguments, as in ["git", "log", "--", "{path}"], '
            f"got {show(command)}"
        )
    program, *rest = command
    if _FIELD.search(program):
        raise DefinitionError(f"the program {show(program)} must not depend on the call: write its name without braces")
    properties = parameters.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    groups = []
    for it in rest:
        texts = it if isinstance(it, list) else [it]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DefinitionError(
                f"'command' has {show(it)}; an argument is a text, or a list of texts that belong together"
            )
        groups.append(tuple(_read_element(str(text), known) for text in texts))
    return CommandTemplate(program, tuple(groups))


def _read_element(text: str, known: Sequence[str]) -> _Element:
    parts: list[str | _Field] = []
    position, words = 0, ""
    for match in _FIELD.finditer(text):
        words += text[position : match.start()]
        position = match.end()
        if match[0] in ("{{", "}}"):
            words += match[0][0]
            continue
        name = match["name"]
        if name is None:
            raise DefinitionError(
                f"'command' has {show(text)}; write {{{{ and }}}} for braces, {{NAME}} for an argument"
            )
        if name not in known:
            raise DefinitionError(f"'command' has {{{name}}}, which is no parameter; {suggestion(name, known)}")
        parts += [words] if words else []
        parts.append(_Field(name, match["mark"]))
        words = ""
    words += text[position:]
    return _Element(tuple([*parts, words] if words or not parts else parts))


def _is_there(field: _Field, arguments: Mapping[str, JSON]) -> bool:
    value = arguments.get(field.name)
    return bool(value) if field.mark == "?" else value is not None


def _filled(element: _Element, arguments: Mapping[str, JSON], is_after_options: bool) -> list[str]:
    fields = element.fields
    shown = [part for part in element.parts if isinstance(part, str) or part.mark != "?"]
    if not shown:
        return []
    if len(shown) == 1 and isinstance(shown[0], _Field):
        value = arguments[shown[0].name]
        values = value if isinstance(value, list) else [value]
        return [_checked(_text(it), shown[0], is_after_options) for it in values]
    text = "".join(part if isinstance(part, str) else _text(arguments[part.name]) for part in shown)
    starts_free = isinstance(shown[0], _Field)
    return [
        _checked(text, shown[0] if isinstance(shown[0], _Field) else fields[0], is_after_options or not starts_free)
        if fields
        else text
    ]


def _text(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _checked(text: str, field: _Field, may_start_with_dash: bool) -> str:
    name = field.name
    if text.startswith("-") and not may_start_with_dash and field.mark != "-":
        raise InvalidArgumentsError(f"Invalid parameters: '{name}' must not start with '-', got {show(text)}")
    if "\0" in text:
        raise InvalidArgumentsError(f"Invalid parameters: '{name}' has a NUL character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentsError(f"Invalid parameters: '{name}' is not valid text") from None
    if size > _MAX_BYTES:
        raise InvalidArgumentsError(
            f"Invalid parameters: '{name}' has {size:,} bytes; an argument may have {_MAX_BYTES:,}"
        )
    return text
