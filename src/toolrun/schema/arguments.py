"""The JSON Schema of a tool's arguments: compiled once, then asked about every call. Pure.

`is_valid` only says yes or no; `fast_validator` does so for the hot path. `check` is for what is not valid as it came:
it reads JSON text, repairs, drops what the schema does not know, and explains the rest. Knows neither tools nor calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from toolrun.json import JSON, JSONDecodeError, Schema, loads
from toolrun.schema.description import describe
from toolrun.schema.explain import Problem, problems_of, unknown
from toolrun.schema.repair import Repair, repair
from toolrun.schema.validator import CompiledSchema
from toolrun.schema.value import MAX_NESTING, MAX_TEXT, is_too_deep, join, local_reference, pointer, size, type_of
from toolrun.text import is_encodable, printable, show

_WRAPPERS = frozenset({"args", "arguments", "input", "kwargs", "parameters", "params"})
_OPENERS = (
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "const",
    "enum",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords at the root that may take names which `properties` does not list, unless they are `false`."""

_MAX_EXPLAINED = 20_000
"""Values in arguments whose errors are listed one by one: the validator collects them all first, 10 µs each."""


Rename: TypeAlias = Callable[[dict[str, JSON]], tuple[dict[str, JSON], dict[str, str]]]
"""Gives arguments the names that the schema has for them: the new arguments, and {old: new} of what was renamed."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The arguments of a call after `ArgumentSchema.check`."""

    arguments: dict[str, JSON]
    """What the tool gets."""
    repairs: tuple[Repair, ...] = ()
    dropped: tuple[str, ...] = ()
    """Names that the schema does not know and that the tool does not get."""
    problems: tuple[Problem, ...] = ()
    """If there are any, the call is refused."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names that were given, and those that the tool gets instead."""


_UNFIT = Problem("", "the arguments do not fit the schema")


class ArgumentSchema:
    """A compiled schema. Raises `DefinitionError` for one that cannot be used; its message does not name the tool."""

    __slots__ = ("_compiled", "_is_recursive", "_known", "_validate", "names", "schema")

    def __init__(self, schema: Mapping[str, JSON]) -> None:
        self.schema = schema
        self._compiled = CompiledSchema(schema)
        self._validate: Callable[[object], bool] = self._compiled.validator.is_valid
        self._is_recursive = self._compiled.is_recursive
        names: set[str] = set()
        is_open = _collect_names(self._compiled.root, self._compiled.root, names, set())
        # {"type": "object"} names nothing, so it leaves everything to the tool. {"properties": {}} says: no arguments.
        is_open |= not names and not self._compiled.root.keys() & {"properties", "additionalProperties"}
        self.names = frozenset(names)
        """The parameters that the schema names; an open one takes others as well."""
        self._known = None if is_open else self.names

    def is_valid(self, arguments: object) -> bool:
        """Whether these are arguments that the tool can be given as they are. NaN counts as null here."""
        try:
            return (
                isinstance(arguments, dict)
                and (self._known is None or arguments.keys() <= self._known)
                # Validation recurses without a limit where the schema does: a deep value would end the process.
                and not (self._is_recursive and is_too_deep(arguments))
                and self._validate(arguments)
            )
        except ValueError:  # not JSON: keys that are no text, sets, lone surrogates
            return False

    def fast_validator(self, *, only_listed_names: bool = False) -> Callable[[object], bool]:
        """What does the same as `is_valid` for the hot path. It may raise ValueError for what is not JSON.

        With `only_listed_names` also an open schema takes no names but those that it lists.
        """
        root = self._compiled.root
        validate: Callable[[object], bool] = self.is_valid
        if root.get("type") == "object" and root.get("additionalProperties") is False and not self._is_recursive:
            validate = self._validate  # refuses whatever `is_valid` would look for itself
        if not only_listed_names:
            return validate
        names = self.names
        return lambda arguments: isinstance(arguments, dict) and arguments.keys() <= names and validate(arguments)

    def check(self, arguments: object, *, strict: bool = False, rename: Rename | None = None) -> Checked:
        """The arguments as the tool gets them, or why it cannot be given them. Never raises."""
        is_named = rename is None or (isinstance(arguments, dict) and arguments.keys() <= self.names)
        if is_named and isinstance(arguments, dict) and self.is_valid(arguments):
            return Checked(arguments)
        given, repairs = _read(arguments)
        if isinstance(given, Problem):
            return Checked({}, problems=(given,))
        given, unwrapped = self._unwrap(given)
        before, renamed = given, dict[str, str]()
        if rename is not None:
            given, renamed = rename(given)
        named = [Repair("", {old: before[old]}, {new: before[old]}, "parameter name") for old, new in renamed.items()]
        kept, extras = self._split(given)
        kept, changes = repair(kept, self._compiled.root, self._compiled.is_valid_at)
        problems = self._problems(kept, extras)
        if strict:
            problems += tuple(unknown("", name, self._known or ()) for name in extras)
        dropped = () if strict else tuple(extras)
        return Checked(kept, (*repairs, *unwrapped, *named, *changes), dropped, problems, renamed)

    def describe(self) -> str:
        """The parameters for a model, one a line."""
        return describe(self._compiled.root)

    def _unwrap(self, given: dict[str, JSON]) -> tuple[dict[str, JSON], tuple[Repair, ...]]:
        """What is in `{"args": {…}}`, if the schema knows no such name."""
        name, inner = next(iter(given.items())) if len(given) == 1 else ("", None)
        if self._known is None or name not in _WRAPPERS or name in self._known:
            return given, ()
        if isinstance(inner, str):
            inner = _parsed(inner)
        if not isinstance(inner, dict) or is_too_deep(inner):
            return given, ()
        return inner, (Repair("", given, inner, f"arguments wrapped in '{name}'"),)

    def _split(self, given: dict[str, JSON]) -> tuple[dict[str, JSON], list[str]]:
        """The arguments that the schema knows, and the names of the others."""
        known = self._known
        if known is None or given.keys() <= known:
            return given, []
        kept = {name: value for name, value in given.items() if name in known}
        return kept, [name for name in given if name not in known]

    def _problems(self, arguments: dict[str, JSON], extras: list[str]) -> tuple[Problem, ...]:
        try:
            if self._validate(arguments):
                return ()
            if size(arguments, _MAX_EXPLAINED) > _MAX_EXPLAINED:
                return self._coarse_problems(arguments)
            errors = self._compiled.errors("", arguments)
            found = problems_of(errors, arguments, self._compiled.root, extras, self._compiled.errors)
        except ValueError as error:
            return (Problem("", printable(f"the arguments cannot be checked: {error}")),)
        return found or (_UNFIT,)

    def _coarse_problems(self, arguments: dict[str, JSON]) -> tuple[Problem, ...]:
        """Only which parameters are wrong."""
        required = self._compiled.root.get("required")
        missing = [str(name) for name in (required if isinstance(required, list) else ()) if name not in arguments]
        found = [Problem(name, f"missing '{name}'") for name in missing]
        for name, value in arguments.items():
            if not self._compiled.is_valid_at(pointer("properties", name), value):
                got = f"got {show(value)} ({type_of(value)})"
                found.append(Problem(name, f"'{name}' does not fit its schema, {got}"))
        return tuple(found) or (_UNFIT,)


def _collect_names(schema: Schema, root: Schema, names: set[str], seen: set[int]) -> bool:
    """Gathers the names that the schema may know. True if it is open to others, or if that cannot be told."""
    if id(schema) in seen:
        return False
    seen.add(id(schema))
    properties, required = schema.get("properties"), schema.get("required")
    names.update(properties if isinstance(properties, dict) else ())
    names.update(str(name) for name in (required if isinstance(required, list) else ()))
    is_open = any(schema.get(keyword, False) is not False for keyword in _OPENERS)
    parts: list[JSON] = [schema.get(keyword) for keyword in ("if", "then", "else", "not")]
    if "$ref" in schema:
        target = local_reference(root, schema["$ref"])
        is_open = is_open or target is None
        parts.append(target[1] if target else None)
    for keyword in ("allOf", "anyOf", "oneOf"):
        members = schema.get(keyword)
        parts.extend(members if isinstance(members, list) else ())
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        dependents = schema.get(keyword)
        for name, needed in dependents.items() if isinstance(dependents, dict) else ():
            names.update([name, *(str(other) for other in (needed if isinstance(needed, list) else ()))])
            parts.append(needed)
    for part in parts:
        if isinstance(part, dict) and _collect_names(part, root, names, seen):
            is_open = True
    return is_open


def _read(arguments: object) -> tuple[dict[str, JSON] | Problem, tuple[Repair, ...]]:
    """The arguments as an object of JSON values; they may come as JSON text."""
    value = arguments
    repairs: tuple[Repair, ...] = ()
    if isinstance(value, str | bytes | bytearray):
        if len(value) > MAX_TEXT:
            return Problem("", f"the arguments are longer than {MAX_TEXT:,} characters"), ()
        try:
            value = loads(value) if value.strip() else None
        except JSONDecodeError as error:
            return Problem("", f"the arguments are not valid JSON: {error}"), ()
        inner = _parsed(value) if isinstance(value, str) else None
        if isinstance(value, str) and isinstance(inner, dict):
            repairs = (Repair("", value, inner, "arguments encoded as JSON twice"),)
            value = inner
    if value is None:
        return {}, repairs
    if not isinstance(value, dict):
        return Problem("", f"the arguments must be an object, got {show(value)} ({type_of(value)})"), ()
    return _not_json(value) or value, repairs


def _parsed(text: str) -> JSON:
    """The value of a JSON text; `None` if it is none."""
    try:
        return loads(text) if len(text) <= MAX_TEXT else None
    except JSONDecodeError:
        return None


def _not_json(arguments: dict[str, JSON]) -> Problem | None:
    """The first thing in the arguments that JSON cannot express."""
    if is_too_deep(arguments):
        return Problem("", f"the arguments are nested deeper than {MAX_NESTING} levels: make them flatter")
    stack: list[tuple[str, object]] = [("", arguments)]
    while stack:
        path, held = stack.pop()
        items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list | tuple) else ()
        for key, item in items:
            if isinstance(held, dict) and not (isinstance(key, str) and is_encodable(key)):
                return Problem(path, f"the name {show(key)} is not valid text")
            fault = _fault(item)
            if fault:
                where = join(path, key)
                return Problem(where, f"'{where}' {fault}")
            if isinstance(item, dict | list | tuple):
                stack.append((join(path, key), item))
    return None


def _fault(value: object) -> str | None:
    match value:
        case str():
            return None if is_encodable(value) else f"is not valid text: {show(value)} holds half a character"
        case float():
            return None if math.isfinite(value) else f"must be a number, got {show(value)}"
        case None | bool() | int() | list() | tuple() | dict():
            return None
        case _:
            return f"is a {type(value).__name__}, which JSON cannot express"
