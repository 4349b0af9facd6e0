"""The JSON Schema of a tool's arguments: compiled once, then asked about every call. Pure.

`is_valid` only says yes or no; `fast_validator` does so for the hot path. `check` is for what is not valid as it came:
it reads JSON text, finds out what was meant by names that the schema does not know, repairs, and explains the rest.
Knows neither tools nor calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias, cast

from toolrun.json import JSON, JSONDecodeError, Schema
from toolrun.schema.description import describe
from toolrun.schema.exact_type import exact_validator
from toolrun.schema.explain import MAX_PROBLEMS, Problem, problems_of, unknown
from toolrun.schema.lenient import UnreadableError, read_object
from toolrun.schema.names import lookalikes, match_names, renamed
from toolrun.schema.origin import Origin
from toolrun.schema.reading import RepeatedKeyError, read_json
from toolrun.schema.repair import Rules, repair
from toolrun.schema.repair_record import Repair
from toolrun.schema.validator import CompiledSchema
from toolrun.schema.value import (
    MAX_NESTING,
    MAX_TEXT,
    NotJSONError,
    base_type,
    is_plain,
    is_too_deep,
    local_reference,
    pointer,
    size,
    to_plain,
    type_of,
)
from toolrun.text import printable, show

_WRAPPERS = frozenset(
    {"args", "arguments", "function_args", "input", "kwargs", "parameters", "params", "properties", "tool_input"}
)
_MAX_WRAPPERS = 3
"""Wrappers around each other."""
_MAX_EXTRAS = 100
"""Names that the schema does not know and that are still looked at one by one; more are no accident."""
_MAX_NAMES = 100_000
"""Names in a mapping that makes them when asked; no schema has more."""
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


@dataclass(frozen=True, slots=True)
class NamedArguments:
    """Arguments as an object of plain JSON values, under the names of the schema as far as it knows them."""

    arguments: dict[str, JSON]
    repairs: tuple[Repair, ...]
    renamed: Mapping[str, str]


TOO_LARGE = Problem("", f"the arguments are larger than {MAX_TEXT:,} characters of JSON: send less")
_UNFIT = Problem("", "the arguments do not match the schema")


class ArgumentSchema:
    """A compiled schema. Raises `DefinitionError` for one that cannot be used; its message does not name the tool."""

    __slots__ = ("_compiled", "_is_closed", "_is_passing", "_known", "_validate", "effort", "names", "origin", "schema")

    def __init__(self, schema: Mapping[str, JSON], origin: Origin = Origin.DECLARED) -> None:
        self.schema = schema
        self.origin = origin
        self._compiled = CompiledSchema(schema, is_closing=origin is Origin.SIGNATURE)
        self._validate: Callable[[object], bool] = self._compiled.validator.is_valid
        self.effort = self._compiled.effort
        root = self._compiled.root
        found = _Names(root)
        # {"type": "object"} names nothing, so it leaves everything to the tool. {"properties": {}} says: no arguments.
        is_open = found.is_open or (not found.names and not root.keys() & {"properties", "additionalProperties"})
        self.names = frozenset(found.names)
        """The parameters that the schema names; an open one takes others as well."""
        self._known = None if is_open else self.names
        self._is_closed = found.is_closed and origin is not Origin.SIGNATURE
        """Whether somebody decided that other names are refused."""
        self._is_passing = origin is Origin.SERVER
        """Whether other names, if nothing is said of them, are for the tool to judge."""

    def is_valid(self, arguments: object) -> bool:
        """Whether these are arguments that the tool can be given as they are."""
        try:
            return (
                is_plain(arguments)
                and (self._known is None or cast("dict[str, JSON]", arguments).keys() <= self._known)
                and self._validate(arguments)
            )
        except ValueError:  # the validator gives up
            return False

    def fast_validator(self, is_short: Callable[[object], bool] | None = None) -> Callable[[object], bool]:
        """What does the same as `is_valid` for the hot path, but leaves every name that is not listed to `check`.

        And it leaves to others all arguments that are not `is_short`: to look at those may take long.
        """
        names = self.names

        def is_valid(arguments: object) -> bool:
            if is_short is not None and not is_short(arguments):
                return False
            return self.is_valid(arguments) and (not names or cast("dict[str, JSON]", arguments).keys() <= names)

        return exact_validator(self._compiled.root, is_valid) or is_valid

    def check(
        self,
        arguments: object,
        *,
        strict: bool = False,
        rename: Rename | None = None,
        tool_names: Collection[str] = (),
    ) -> Checked:
        """The arguments as the tool gets them, or why it cannot be given them. Never raises.

        `tool_names` are those of the tool itself, which a model may have sent along.
        """
        if self.is_valid(arguments) and cast("dict[str, JSON]", arguments).keys() <= self.names:
            return Checked(cast("dict[str, JSON]", arguments))
        named = self.find_names(arguments, rename, tool_names)
        if isinstance(named, Problem):
            return Checked({}, problems=(named,))
        return with_names(self.check_named(named.arguments, strict), named)

    def find_names(
        self, arguments: object, rename: Rename | None = None, tool_names: Collection[str] = ()
    ) -> NamedArguments | Problem:
        """The first half of `check`. Whatever the arguments are, no step of it takes long: it may run in a thread."""
        given, read = _read(arguments, self.names)
        if isinstance(given, Problem):
            return given
        given, names, changes = self._find_names(given, rename, tool_names)
        return NamedArguments(given, (*read, *changes), names)

    def check_named(self, given: dict[str, JSON], strict: bool) -> Checked:
        """The second half of `check`, for which the validator is asked."""
        kept, extras, refused = self._sort(given, strict)
        rules = Rules(has_defaults=self.origin is Origin.SIGNATURE, is_strict=strict)
        kept, repairs, below = repair(kept, self._compiled.root, self._compiled.is_valid_at, rules)
        found = self._problems(kept, extras)
        # Not twice: a name that is close to a missing one is mentioned there.
        problems = found + tuple(it for it in refused if not any(f"(you sent '{it.path}')" in _.message for _ in found))
        dropped = () if refused or kept.keys() >= set(extras) else tuple(extras)
        return Checked(kept, tuple(repairs), (*dropped, *below), problems)

    def describe(self) -> str:
        """The parameters for a model, one a line."""
        return describe(self._compiled.root)

    def _find_names(
        self, given: dict[str, JSON], rename: Rename | None, tool_names: Collection[str]
    ) -> tuple[dict[str, JSON], dict[str, str], list[Repair]]:
        """The arguments under the names of the schema, taken out of what they are wrapped in."""
        names: dict[str, str] = {}
        changes: list[Repair] = []
        for _ in range(_MAX_WRAPPERS + 1):
            before, found = given, dict[str, str]()
            if rename is not None:
                given, found = rename(given)
            matched = {} if given.keys() <= self.names else match_names(given, self.names)
            given = cast("dict[str, JSON]", renamed(given, matched)) if matched else given
            for old, new in {**found, **matched}.items():
                names[old] = new
                changes.append(Repair("", {old: before[old]}, {new: before[old]}, "parameter name"))
            wrapped = self._wrapped(given, tool_names)
            if wrapped is None:
                break
            name, inner = wrapped
            changes.append(Repair("", given, inner, f"arguments wrapped in '{name}'"))
            given = inner
        return given, names, changes

    def _wrapped(self, given: dict[str, JSON], tool_names: Collection[str]) -> tuple[str, dict[str, JSON]] | None:
        """What is in `{"args": {…}}` or `{"name": …, "arguments": {…}}`, if the schema knows no such names."""
        is_ours = self.origin is Origin.SIGNATURE
        if (self._known is None and not is_ours) or not given or not self.names.isdisjoint(given):
            return None
        name = next((name for name in given if name in _WRAPPERS), "")
        others = given.keys() - {name}
        if not name or not (not others or (others == {"name"} and _is_name_of(given["name"], tool_names))):
            return None
        inner = _object_in(given[name], self.names)
        if inner is None or (self._known is None and not self._knows_any(inner)):
            return None  # `**kwargs` may want it as it is
        return name, inner

    def _knows_any(self, given: dict[str, JSON]) -> bool:
        """Whether one of these names is listed, as it is or in other letters."""
        return not self.names.isdisjoint(renamed(given, match_names(given, self.names)))

    def _sort(self, given: dict[str, JSON], strict: bool) -> tuple[dict[str, JSON], list[str], tuple[Problem, ...]]:
        """The arguments for the tool, the names that the schema does not know, and why the call is refused for them."""
        known = self._known
        if known is None or given.keys() <= known:
            return given, [], ()
        kept = {name: value for name, value in given.items() if name in known}
        extras = [name for name in given if name not in known]
        close = lookalikes(extras[:_MAX_EXTRAS], known)
        refused = extras
        if not (strict or self._is_closed or not kept or len(extras) > _MAX_EXTRAS):
            refused = [name for name in extras if name in close or _is_wrapper(name, given[name])]
        if refused:
            problems = tuple(unknown("", name, close.get(name)) for name in refused[:MAX_PROBLEMS])
            more = len(refused) - len(problems)
            return kept, extras, problems + ((Problem("", f"and {more} more unknown parameters"),) if more else ())
        return given if self._is_passing else kept, extras, ()

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
                found.append(Problem(name, f"'{name}' does not match its schema, {got}"))
        return tuple(found) or (_UNFIT,)


def with_names(checked: Checked, named: NamedArguments) -> Checked:
    """Both halves of a check."""
    if not named.repairs and not named.renamed:
        return checked
    return replace(checked, repairs=(*named.repairs, *checked.repairs), renamed=named.renamed)


class _Names:
    """The names that a schema may know, and what it says of others."""

    def __init__(self, root: Schema) -> None:
        self.names: set[str] = set()
        self.is_closed = False
        """Whether it refuses others."""
        self.is_open = False
        """Whether it takes others, or that cannot be told."""
        self._root = root
        self._seen: set[int] = set()
        self._collect(root, is_rule=True)

    def _collect(self, schema: JSON, *, is_rule: bool) -> None:
        """`is_rule`: the arguments must fit this part, or one that stands beside it."""
        if not isinstance(schema, dict) or id(schema) in self._seen:
            return
        self._seen.add(id(schema))
        properties, required = schema.get("properties"), schema.get("required")
        self.names.update(properties if isinstance(properties, dict) else ())
        self.names.update(str(name) for name in (required if isinstance(required, list) else ()))
        self.is_open |= any(schema.get(keyword, False) is not False for keyword in _OPENERS)
        closers = ("additionalProperties", "unevaluatedProperties")
        self.is_closed |= is_rule and any(schema.get(keyword) is False for keyword in closers)
        if "$ref" in schema:
            target = local_reference(self._root, schema["$ref"])
            self.is_open |= target is None
            self._collect(target[1] if target else None, is_rule=is_rule)
        for keyword in ("allOf", "anyOf", "oneOf"):
            members = schema.get(keyword)
            for member in members if isinstance(members, list) else ():
                self._collect(member, is_rule=is_rule)
        for keyword in ("if", "then", "else", "not"):
            self._collect(schema.get(keyword), is_rule=False)
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            dependents = schema.get(keyword)
            for name, needed in dependents.items() if isinstance(dependents, dict) else ():
                self.names.update([name, *(str(other) for other in (needed if isinstance(needed, list) else ()))])
                self._collect(needed, is_rule=False)


def _read(arguments: object, names: Collection[str]) -> tuple[dict[str, JSON] | Problem, tuple[Repair, ...]]:
    """The arguments as an object of plain JSON values; they may come as JSON text."""
    if type(arguments) is dict and is_plain(arguments):  # most of them
        return arguments, ()
    value: Any = arguments
    if issubclass(type(value), str):
        value = arguments = str.__str__(value)
    repairs: tuple[Repair, ...] = ()
    if issubclass(type(value), str | bytes | bytearray):
        if len(value) > MAX_TEXT:
            return TOO_LARGE, ()
        try:
            value = read_json(value) if value.strip() else None
        except RepeatedKeyError as error:
            return Problem("", str(error)), ()
        except JSONDecodeError as error:
            text = _decoded(cast("str | bytes | bytearray", arguments))
            value = _object_in(text, names)
            if value is None:
                return Problem("", f"the arguments are not valid JSON: {error}"), ()
            repairs = (Repair("", text, value, "almost valid JSON"),)
        inner = _object_in(value, names) if type(value) is str else None
        if inner is not None:
            repairs = (Repair("", value, inner, "arguments encoded as JSON twice"),)
            value = inner
    kind = base_type(value)
    if kind is None and isinstance(value, Mapping):
        value = {name: value[name] for name in islice(value, _MAX_NAMES + 1)}  # it need not have an end
        if len(value) > _MAX_NAMES:
            return Problem("", f"the arguments have more than {_MAX_NAMES:,} names: send fewer"), ()
        kind = dict
    if value is None:
        return {}, repairs
    if kind is not dict:
        return Problem("", f"the arguments must be an object, got {show(value)} ({type_of(value)})"), ()
    return (value if is_plain(value) else as_plain(value)), repairs


def as_plain(arguments: dict[str, JSON]) -> dict[str, JSON] | Problem:
    """The arguments as plain JSON values, or the first thing in them that JSON cannot express."""
    if is_too_deep(arguments):
        return Problem("", f"the arguments are nested deeper than {MAX_NESTING} levels: make them flatter")
    try:
        return cast("dict[str, JSON]", to_plain(arguments))
    except NotJSONError as error:
        return Problem(error.path, str(error))


def _decoded(text: str | bytes | bytearray) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")


def _object_in(value: JSON, names: Collection[str] = ()) -> dict[str, JSON] | None:
    """The object that a value is or spells; `None` if it is none."""
    if isinstance(value, str):
        try:
            value = read_json(value) if len(value) <= MAX_TEXT else None
        except RepeatedKeyError:
            return None
        except JSONDecodeError:
            try:
                value = read_object(cast(str, value), names)
            except UnreadableError:
                return None
    return value if isinstance(value, dict) and is_plain(value) else None


def _is_wrapper(name: str, value: JSON) -> bool:
    """Whether arguments seem to be wrapped in this one: then it is no extra that can be left out."""
    return name in _WRAPPERS and _object_in(value) is not None


def _is_name_of(value: JSON, tool_names: Collection[str]) -> bool:
    """Whether this is the name of the tool. A server's tool has it behind the name of the server."""
    if not isinstance(value, str) or not value:
        return False
    return not tool_names or any(name == value or name.endswith(f"__{value}") for name in tool_names)
