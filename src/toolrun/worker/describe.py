"""Functions → what a model is told of them, and how to call them with JSON arguments."""

from __future__ import annotations

import sys

from . import hint, script
from .convert import misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .convert import Convert
    from .hint import Schema

MISSING = object()
_KEYWORDS = 0x08
"""The flag of code that takes **kwargs."""


class InvalidArgumentsError(ValueError):
    raised = ("toolrun.InvalidArguments",)


class Reading:
    """What the signature of a function says."""

    def __init__(self, schema: Schema, bind: Callable[[dict[str, Any]], dict[str, Any]], problems: list[str]) -> None:
        self.schema = schema
        self.bind = bind
        """Makes the function's arguments from JSON. Raises InvalidArgumentsError."""
        self.problems = problems


class Parameters:
    """Names with hints and defaults, where the hints' names are looked up, and whether others are taken too."""

    def __init__(self, hints: dict[str, Any], defaults: dict[str, Any], scope: dict[str, Any], is_open: bool) -> None:
        self.hints = hints
        self.defaults = defaults
        self.scope = scope
        self.is_open = is_open


def describe(functions: dict[str, Callable[..., Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The descriptions, and what in the functions is not as it should be."""
    from .docstring import read_docstring

    described, warnings = [], []
    for name, function in functions.items():
        description, parameters = read_docstring(getattr(script.unwrapped(function), "__doc__", None))
        reading = read_function(function, parameters)
        warnings += [f"'{name}': {problem}" for problem in reading.problems]
        about = {"name": name, "description": description, "schema": reading.schema}
        described.append({**about, "async": script.is_async(function)})
    return described, warnings


def read_function(function: Callable[..., Any], descriptions: dict[str, str] | None = None) -> Reading:
    parameters = _parameters(function)
    reader = hint.Reader(parameters.scope)
    properties: Schema = {}
    required: list[str] = []
    converters: list[tuple[str, type | None, Convert]] = []
    makers: dict[str, Callable[[], Any]] = {}
    problems: list[str] = []
    for name, given in parameters.hints.items():
        wanted, default, make = _unwrapped(given, parameters.defaults.get(name, MISSING))
        kind = hint.Kind({}) if wanted is MISSING else reader.read(wanted)
        problems += [f"parameter '{name}': {problem}" for problem in reader.problems]
        reader.problems.clear()
        properties[name] = schema = dict(kind.schema)
        if descriptions and name in descriptions:
            schema.setdefault("description", descriptions[name])
        schema.pop("default", None)
        if make is not None:
            makers[name] = make
        if default is MISSING and make is None:
            required.append(name)
        elif default is not MISSING and descriptions is not None:
            schema.update(hint.shown_default(default))
        if kind.convert is not None:
            converters.append((name, kind.exact, kind.convert))
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": parameters.is_open}
    if required:
        made["required"] = required
    if reader.definitions:
        made["$defs"] = reader.definitions
    known = None if parameters.is_open else frozenset(properties)
    return Reading(made, _binding(required, known, converters, makers), problems)


def _binding(
    required: list[str],
    known: frozenset[str] | None,
    converters: list[tuple[str, type | None, Convert]],
    makers: dict[str, Callable[[], Any]],
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def bind(kwargs: dict[str, Any]) -> dict[str, Any]:
        for name in required:
            if name not in kwargs:
                missing = ", ".join(repr(it) for it in required if it not in kwargs)
                raise InvalidArgumentsError(f"Invalid parameters: missing {missing}")
        if known is not None and not known.issuperset(kwargs):
            unknown = ", ".join(repr(it) for it in kwargs if it not in known)
            raise InvalidArgumentsError(f"Invalid parameters: unknown {unknown}")
        for name, exact, convert in converters:
            if name in kwargs and type(kwargs[name]) is not exact:
                try:
                    kwargs[name] = convert(kwargs[name])
                except Exception as error:
                    raise InvalidArgumentsError(f"Invalid parameters: '{name}'{misfit(error)}") from error
        for name, make in makers.items():
            if name not in kwargs:
                kwargs[name] = make()
        return kwargs

    return bind


def _unwrapped(wanted: Any, default: Any) -> tuple[Any, Any, Callable[[], Any] | None]:
    """Takes `= Field(…)` of pydantic apart: hint, default, and what makes the default for a call."""
    if type(default).__name__ != "FieldInfo" or not type(default).__module__.startswith("pydantic"):
        return wanted, default, None
    from typing import Annotated, Any

    field = default
    wanted = Annotated[Any if wanted is MISSING else wanted, field]
    if field.is_required():
        return wanted, MISSING, None
    shown = MISSING if field.default_factory is not None else field.default
    return wanted, shown, lambda: field.get_default(call_default_factory=True)


def _parameters(function: Any) -> Parameters:
    target = script.unwrapped(function)
    code = getattr(target, "__code__", None)
    if code is None or hasattr(function, "__signature__"):
        return _inspected(function)
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    values = target.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(values) : code.co_argcount], values))  # noqa: B905  not in 3.9
    defaults.update(target.__kwdefaults__ or {})
    annotations = _annotations(target)
    hints = {name: annotations.get(name, MISSING) for name in names}
    return Parameters(hints, defaults, target.__globals__, bool(code.co_flags & _KEYWORDS))


def _annotations(target: Any) -> dict[str, Any]:
    try:
        return dict(target.__annotations__)
    except Exception:  # noqa: BLE001  from Python 3.14 they are computed here, and a name may not be there
        annotationlib = __import__("annotationlib")
        return dict(annotationlib.get_annotations(target, format=annotationlib.Format.FORWARDREF))


def _inspected(function: Any) -> Parameters:
    """Of a callable object, a partial, or a function that is written in C."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return Parameters({}, {}, {}, True)
    inner = getattr(function, "func", None) or script.unwrapped(function)
    inner = inner if hasattr(inner, "__code__") else type(inner).__call__
    scope = getattr(inner, "__globals__", None) or vars(sys.modules["builtins"])
    named = [it for it in parameters if it.kind in (it.POSITIONAL_OR_KEYWORD, it.KEYWORD_ONLY)]
    return Parameters(
        {it.name: MISSING if it.annotation is it.empty else it.annotation for it in named},
        {it.name: it.default for it in named if it.default is not it.empty},
        scope,
        any(it.kind is it.VAR_KEYWORD for it in parameters),
    )
