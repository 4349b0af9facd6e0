"""What is wrong with arguments, in words that a model can act on. Pure.

Every message stands alone: it names the parameter, what was wanted and what came instead. The validator's own errors
are read here and nowhere else; how they come about is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from toolrun.json import JSON, Schema
from toolrun.schema.names import lookalikes
from toolrun.schema.value import join, type_of
from toolrun.text import close_names, cut, plural, printable, show

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_Phrase: TypeAlias = Callable[[Any, JSON], str]
"""Says what a kind of error wants and what the value is instead; follows the name of the parameter."""

Follow: TypeAlias = Callable[[str, JSON], "Iterable[ValidationError]"]
"""The errors of a value against a part of the schema, where those given stop at a recursive reference."""
_Path: TypeAlias = tuple[str | int, ...]

MAX_PROBLEMS = 20
_MAX_COUNT = 1000
MAX_OPTIONS = 50
_MAX_FORMS = 3
_MAX_EFFORT = 64
_FORMS_EFFORT = 24
"""Following a recursive reference into the value costs 1. What may multiply costs this: references that lead to the
same value again, and several alternatives that may be meant."""
_MAX_LEVELS = 8
_MAX_COMPARING = 50_000
"""The effort of finding out which name was meant, for each problem: less than 2 ms."""
MAX_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse the arguments of a call."""

    path: str
    """Where: `b`, `filter.tags[0]`, or nothing for the arguments as a whole."""
    message: str


def _end(pointer: str, value: JSON) -> Iterable[ValidationError]:
    return ()


def explain(problems: Sequence[Problem]) -> str:
    """All problems in one line."""
    return "Invalid parameters: " + "; ".join(problem.message for problem in problems)


def problems_of(
    errors: Iterable[ValidationError],
    arguments: JSON,
    schema: Schema,
    extras: Sequence[str] = (),
    follow: Follow = _end,
) -> tuple[Problem, ...]:
    """What the validator found, in words. `extras` are names that were sent and are not known."""
    case = _Case(arguments, schema, extras, follow)
    found: dict[str, Problem] = {}
    more = 0
    for error in errors:
        if more == _MAX_COUNT:
            break
        if len(found) >= MAX_PROBLEMS:
            more += 1
        else:
            found.update((problem.message, problem) for problem in case.problems(_fault(error, (), 0)))
    problems = list(found.values())
    more += len(problems[MAX_PROBLEMS:])
    rest = [Problem("", f"and {more} more" if more < _MAX_COUNT else f"and {more} or more others")] if more else []
    return (*problems[:MAX_PROBLEMS], *rest)


def unknown(path: str, name: str, meant: str | None) -> Problem:
    """A name that the schema does not have, with the one that may be meant."""
    hint = f" (did you mean {_quote(join(path, meant))}?)" if meant else ""
    full = join(path, name)
    return Problem(full, f"unknown parameter {_quote(full)}{hint}")


def _quote(path: str) -> str:
    return f"'{printable(path)}'" if path else "the arguments"


def _null_last(types: list[str]) -> list[str]:
    return sorted(types, key="null".__eq__)


def _or(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last


def _options(options: Sequence[JSON]) -> str:
    shown = ", ".join(show(option) for option in options[:MAX_OPTIONS])
    return shown if len(options) <= MAX_OPTIONS else f"{shown}, … ({len(options)} in all)"


def _got(value: JSON) -> str:
    return f"got {show(value)} ({type_of(value)})"


def _one_of(kind: Any, value: JSON) -> str:
    if len(kind.options) == 1:
        return f"must be {show(kind.options[0])}, got {show(value)}"
    return f"must be one of {_options(kind.options)}; got {show(value)}"


def _length(bound: str, thing: str) -> _Phrase:
    def phrase(kind: Any, value: JSON) -> str:
        size = len(value) if isinstance(value, str | list | dict) else 0
        return f"must have {bound} {plural(kind.limit, thing)}, got {size}: {show(value)}"

    return phrase


def _bound(words: str) -> _Phrase:
    return lambda kind, value: f"must be {words} {kind.limit}, got {show(value)}"


_PHRASES: dict[str, _Phrase] = {
    "Type": lambda kind, value: f"must be {_or(_null_last(kind.types))}, {_got(value)}",
    "Enum": _one_of,
    "Constant": lambda kind, value: f"must be {show(kind.expected_value)}, got {show(value)}",
    "Minimum": _bound("at least"),
    "Maximum": _bound("at most"),
    "ExclusiveMinimum": _bound("greater than"),
    "ExclusiveMaximum": _bound("less than"),
    "MultipleOf": lambda kind, value: f"must be a multiple of {kind.multiple_of}, got {show(value)}",
    "MinLength": _length("at least", "character"),
    "MaxLength": _length("at most", "character"),
    "MinItems": _length("at least", "item"),
    "MaxItems": _length("at most", "item"),
    "AdditionalItems": _length("at most", "item"),
    "MinProperties": _length("at least", "property"),
    "MaxProperties": _length("at most", "property"),
    "Pattern": lambda kind, value: f"must match the pattern {kind.pattern}, got {show(value)}",
    "BacktrackLimitExceeded": lambda _, value: f"takes too long to match against its pattern, got {show(value)}",
    "Format": lambda kind, value: f"must be a valid {kind.format}, got {show(value)}",
    "UniqueItems": lambda _, value: f"must not hold the same item twice, got {show(value)}",
    "UnevaluatedItems": lambda kind, _: f"has items that are not allowed, at {_options(kind.unexpected)}",
    "FalseSchema": lambda _, value: f"is not allowed, got {show(value)}",
    "Not": lambda kind, value: f"must not match {show(kind.schema)}, got {show(value)}",
    "OneOfMultipleValid": lambda _, value: (
        f"matches several of its forms and must match exactly one, got {show(value)}"
    ),
}


@dataclass(frozen=True, slots=True)
class _Fault:
    """An error of the validator, with its place in the arguments as a whole."""

    path: _Path
    base: _Path
    """Where in the arguments the validation began that found it."""
    kind: Any
    rule: list[str | int]
    """Where the broken rule is in the schema."""
    message: str
    effort: int

    @property
    def name(self) -> str:
        return type(self.kind).__name__


def _fault(error: ValidationError, base: _Path, effort: int) -> _Fault:
    return _Fault((*base, *error.instance_path), base, error.kind, error.schema_path, error.message, effort)


def _phrase(kind: Any, value: JSON, message: str) -> str:
    phrase = _PHRASES.get(type(kind).__name__)
    return printable(phrase(kind, value) if phrase else f"is not valid: {cut(message, MAX_SHOWN)}")


@dataclass(frozen=True, slots=True)
class _Case:
    """The refused arguments and what their errors are explained with."""

    arguments: JSON
    schema: Schema
    extras: Sequence[str]
    follow: Follow

    def problems(self, fault: _Fault) -> list[Problem]:
        path, kind = _path(fault.path), fault.kind
        value = _at(self.arguments, fault.path)
        match fault.name:
            case "Required":
                return [Problem(join(path, kind.property), f"missing {self._missing(fault)}")]
            case "AdditionalProperties" | "UnevaluatedProperties":
                known = properties_of(_at(self.schema, fault.rule[:-1]))
                extras = kind.unexpected[: MAX_PROBLEMS + 1]
                close = lookalikes(extras, known, _MAX_COMPARING)
                return [unknown(path, extra, close.get(extra)) for extra in extras]
            case "FalseSchema" if fault.rule[-1:] in (["additionalProperties"], ["unevaluatedProperties"]):
                return [unknown(path, extra, None) for extra in (value if isinstance(value, dict) else ())]
            case "AnyOf" | "OneOfNotValid":
                return self._no_form(fault, value)
            case "Custom":
                inner = self._followed(fault)
                if inner:
                    return [problem for each in inner for problem in self.problems(each)]
                return [Problem(path, f"{_quote(path)} does not match its schema, {_got(value)}")]
            case "Contains":
                return [Problem(path, f"{_quote(path)} {self._contains(fault)}, got {show(value)}")]
            case "PropertyNames":
                phrase = _phrase(kind.error.kind, kind.error.instance, kind.error.message)
                return [Problem(path, f"{_quote(path)} has a name that {phrase}")]
        return [Problem(path, f"{_quote(path)} {_phrase(kind, value, fault.message)}")]

    def _followed(self, fault: _Fault) -> list[_Fault]:
        """The errors behind a recursive reference; none if that would go too far."""
        effort = fault.effort + (1 if fault.path != fault.base else _FORMS_EFFORT)
        if fault.name != "Custom" or effort > _MAX_EFFORT:
            return []
        errors = self.follow(fault.kind.message, _at(self.arguments, fault.path))
        return [_fault(error, fault.path, effort) for error in errors]

    def _missing(self, fault: _Fault) -> str:
        """The name of a missing property and, if one was sent that is close, that one."""
        name: str = fault.kind.property
        path = _path(fault.path)
        sent: Iterable[str] = self.extras
        if path:
            value = _at(self.arguments, fault.path)
            known = properties_of(_at(self.schema, fault.rule[:-1]))
            sent = [key for key in value if key not in known] if isinstance(value, dict) else []
        meant = next(iter(close_names(name, sent, 1, _MAX_COMPARING)), None)
        hint = f" (you sent {_quote(join(path, meant))})" if meant else ""
        return f"{_quote(join(path, name))}{hint}"

    def _contains(self, fault: _Fault) -> str:
        rules = _at(self.schema, fault.rule[:-1])
        if not isinstance(rules, dict):
            return "does not hold the items that it must"
        bound, limit = "at least", rules.get("minContains", 1)
        if fault.rule[-1] == "maxContains":
            bound, limit = "at most", rules.get("maxContains")
        return f"must hold {bound} {show(limit)} of {show(rules.get('contains'))}"

    def _no_form(self, fault: _Fault, value: JSON) -> list[Problem]:
        """Why the value is none of the alternatives: by the one that it was meant to be, if that can be told."""
        path = _path(fault.path)
        branches = self._branches(fault)
        if branches and all(each.name == "Required" and each.path == fault.path for it in branches for each in it):
            needed = [" and ".join(self._missing(each) for each in branch) for branch in branches]
            return [Problem(path, f"missing {_or(needed)}")]
        near = [branch for branch in branches if self._wanted(branch, fault.path) is None]
        if not near:
            wanted = [word for branch in branches for word in self._wanted(branch, fault.path) or ()]
            return [Problem(path, f"{_quote(path)} must be {_or(wanted or ['something else'])}, {_got(value)}")]
        near = [branch for branch in near if not _has_other_tag(branch, fault.path)] or near
        if len(near) == 1:
            return [problem for each in near[0] for problem in self.problems(each)]
        if fault.effort + _FORMS_EFFORT > _MAX_EFFORT:
            return [Problem(path, f"{_quote(path)} matches none of its forms, {_got(value)}")]
        forms = [self._form(branch) for branch in near[:_MAX_FORMS]]
        return [Problem(path, f"{_quote(path)} must take one of its forms: {', or '.join(dict.fromkeys(forms))}")]

    def _form(self, branch: list[_Fault]) -> str:
        """What keeps the value from being one alternative, in short."""
        tried = [replace(fault, effort=fault.effort + _FORMS_EFFORT) for fault in branch[:2]]
        return " and ".join(problem.message for fault in tried for problem in self.problems(fault)[:2])

    def _branches(self, fault: _Fault) -> list[list[_Fault]]:
        """The errors of each alternative. References are followed where they stand for the alternative as a whole."""
        branches: list[list[_Fault]] = []
        for errors in fault.kind.context:
            branch = [_fault(error, fault.base, fault.effort) for error in errors]
            whole = [self._followed(each) if each.path == fault.path else [] for each in branch]
            branches.append([it for each, inner in zip(branch, whole, strict=True) for it in inner or [each]])
        return [branch for branch in branches if branch]

    def _wanted(self, branch: list[_Fault], here: _Path) -> list[str] | None:
        """What an alternative wants instead of the value, if it wants something else altogether."""
        types: list[str] = []
        for fault in branch:
            if fault.path != here:
                continue
            match fault.name:
                case "Enum":
                    return [show(option) for option in fault.kind.options[:MAX_OPTIONS]]
                case "Constant":
                    return [show(fault.kind.expected_value)]
                case "Type":
                    types = _null_last(fault.kind.types)
                case "AnyOf" | "OneOfNotValid":
                    inner = [self._wanted(alternative, here) for alternative in self._branches(fault)]
                    if all(words is not None for words in inner):
                        types = [word for words in inner for word in words or ()]
        return types or None


def _has_other_tag(branch: list[_Fault], here: _Path) -> bool:
    """Whether the value says itself that it is another alternative, such as `{"kind": "circle"}`."""
    return any(fault.name in ("Constant", "Enum") and fault.path[:-1] == here for fault in branch)


def _path(steps: Iterable[str | int]) -> str:
    path = ""
    for step in steps:
        path = join(path, step)
    return path


def _at(value: JSON, steps: Iterable[str | int]) -> JSON:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def properties_of(schema: JSON) -> dict[str, JSON]:
    """The properties that the schema itself lists."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}
