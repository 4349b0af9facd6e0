"""Functions → what a model is told of them, and how to call them with JSON arguments. For the host and the worker."""

from __future__ import annotations

import sys

from . import script
from .convert import misfit
from .hint import HintReader
from .type_spec import PLAIN, PLAIN_NAMES, HintProblem, TypeSpec, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .type_spec import Schema

MISSING: Any = object()
"""The hint or the default of a parameter that has none."""
_ANY = TypeSpec({})


class InvalidArgumentsError(ValueError):
    raised = ("toolrun.InvalidArguments",)


class Parameters:
    """The parameters of a function, by name."""

    __slots__ = ("defaults", "hints", "optional", "rest", "rest_hint", "scope", "unnamed")

    def __init__(
        self, hints: dict[str, Any], defaults: dict[str, Any], scope: dict[str, Any], rest: str = "", unnamed: str = ""
    ) -> None:
        self.hints = hints
        self.defaults = defaults
        self.optional: set[str] = set()
        """Those that may be left out, and have no default."""
        self.scope = scope
        """Where the names in hints are looked up."""
        self.rest = rest
        """The parameter `**rest`, which takes other names; empty if there is none."""
        self.rest_hint: Any = MISSING
        self.unnamed = unnamed
        """A parameter that cannot be passed by name, if there is one."""


class FunctionSpec:
    """What the parameters of a function mean: one schema, and how the arguments are made."""

    __slots__ = ("factories", "problems", "rest", "schema", "types")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.types: dict[str, TypeSpec] = {}
        """Of the parameters that do not take every value."""
        self.rest: TypeSpec | None = None
        """Of the values of other names, if those do not take every value."""
        self.factories: dict[str, Callable[[], Any]] = {}
        """What makes the defaults of parameters that are written `= Field(default=…)`."""
        self.problems: list[tuple[str, HintProblem]] = []
        """What cannot be expressed, each with its parameter."""


def describe(functions: dict[str, Callable[..., Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The descriptions, and what in the functions is not as it should be."""
    from .docstring import read_docstring

    described, warnings = [], []
    for name, function in functions.items():
        description, parameters = read_docstring(docstring_of(function))
        spec = read_function(function, parameters)
        warnings += [f"'{name}': parameter '{parameter}': {problem}" for parameter, problem in spec.problems]
        about = {"name": name, "description": description, "schema": spec.schema}
        described.append({**about, "async": script.is_async(function)})
    return described, warnings


def docstring_of(function: Any) -> str | None:
    """Of a partial object or of one with `__call__`, the docstring of what is called."""
    function = script.without_partial(function)
    text = function.__doc__
    if not text and not hasattr(function, "__name__"):
        text = type(function).__call__.__doc__
    return text if isinstance(text, str) else None


def read_function(function: Callable[..., Any], descriptions: dict[str, str] | None = None) -> FunctionSpec:
    try:
        parameters = parameters_of(function)
    except ValueError:
        parameters = Parameters({}, {}, {}, "arguments")
    return read_parameters(parameters, descriptions)


def read_parameters(parameters: Parameters, descriptions: dict[str, str] | None = None) -> FunctionSpec:
    """Without `descriptions`, a schema that is good enough to make arguments: it has no defaults."""
    properties: Schema = {}
    required: list[str] = []
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": bool(parameters.rest)}
    spec = FunctionSpec(schema)
    reader = HintReader(parameters.scope)
    if parameters.rest_hint is not MISSING:
        _read_rest(parameters, reader, spec)
    for name, given in parameters.hints.items():
        wanted, default, factory = given, parameters.defaults.get(name, MISSING), None
        if default is not MISSING and type(default).__name__ == "FieldInfo":
            wanted, default, factory = _without_field(wanted, default)
        read = _ANY if wanted is MISSING else _plain(wanted, parameters.scope)
        if read is None:
            read = reader.read_parameter(wanted)
            _add_problems(spec, name, reader)
        properties[name] = own = dict(read.schema)
        own.pop("default", None)
        if descriptions and not read.is_described and name in descriptions:
            own.update(read.described(descriptions[name]))
        if factory is not None:
            spec.factories[name] = factory
        if default is not MISSING:
            if descriptions is not None:
                own.update(_shown_default(default, read))
        elif factory is None and name not in parameters.optional:
            required.append(name)
        if read.convert is not None:
            spec.types[name] = read
    if required:
        schema["required"] = required
    if reader.definitions:
        schema["$defs"] = reader.definitions
    return spec


def _read_rest(parameters: Parameters, reader: HintReader, spec: FunctionSpec) -> None:
    """`**rest: int` says what all other values are; `**rest: Unpack[Options]` has the fields of a TypedDict."""
    try:
        hint = reader.resolve(parameters.rest_hint)
    except Exception:  # noqa: BLE001  the script's own names; `read_parameter` says so
        hint = parameters.rest_hint
    if name_of(hint) == "Unpack":
        from .fields import fields_of

        try:
            options = reader.resolve(hint.__args__[0])
            if not hasattr(options, "__required_keys__"):
                raise TypeError(f"{getattr(options, '__name__', options)} is none")
            found = list(fields_of(options))
        except Exception as error:  # noqa: BLE001  as above
            reason = f"the fields of its TypedDict cannot be read ({error})"
            spec.problems.append((parameters.rest, HintProblem(reason, "any name is accepted")))
            return
        spec.schema["additionalProperties"] = False
        for field in found:
            if field.name not in parameters.hints:
                parameters.hints[field.name] = field.hint
                if not field.is_required:
                    parameters.optional.add(field.name)
        return
    read = reader.read_parameter(hint)
    _add_problems(spec, parameters.rest, reader)
    if read.schema:
        spec.schema["additionalProperties"] = read.schema
    if read.convert is not None:
        spec.rest = read


def _add_problems(spec: FunctionSpec, name: str, reader: HintReader) -> None:
    spec.problems += [(name, problem) for problem in reader.problems]
    reader.problems.clear()


def _plain(wanted: Any, scope: dict[str, Any]) -> TypeSpec | None:
    """The meaning of most hints; to resolve those that are text would take longer than all the rest."""
    try:
        return PLAIN.get(PLAIN_NAMES.get(wanted, wanted) if type(wanted) is str and wanted not in scope else wanted)
    except TypeError:  # not hashable
        return None


def _shown_default(default: Any, spec: TypeSpec) -> Schema:
    if default is None or type(default) in (int, bool) or (type(default) is str and default.isascii()):
        return {"default": default}
    from .fields import shown_default  # most functions do without

    return shown_default(default, spec)


def binding(spec: FunctionSpec) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What makes a function's arguments from JSON, in place. It raises InvalidArgumentsError."""
    required: list[str] = spec.schema.get("required", [])
    names = frozenset(spec.schema["properties"])
    is_open = spec.schema["additionalProperties"] is not False
    converters: list[tuple[str, type | None, Any]] = [(name, it.exact, it.convert) for name, it in spec.types.items()]
    factories, rest = spec.factories, spec.rest

    def bind(kwargs: dict[str, Any]) -> dict[str, Any]:
        for name in required:
            if name not in kwargs:
                missing = ", ".join(repr(it) for it in required if it not in kwargs)
                raise InvalidArgumentsError(f"Invalid parameters: missing {missing}")
        if not is_open and not names.issuperset(kwargs):
            unknown = ", ".join(repr(it) for it in kwargs if it not in names)
            raise InvalidArgumentsError(f"Invalid parameters: unknown {unknown}")
        chosen = converters if rest is None else [*converters, *rest_converters(rest, names, kwargs)]
        for name, exact, convert in chosen:
            if name in kwargs and type(kwargs[name]) is not exact:
                try:
                    kwargs[name] = convert(kwargs[name])
                except Exception as error:
                    raise InvalidArgumentsError(refusal(name, error)) from error
        for name, make in factories.items():
            if name not in kwargs:
                kwargs[name] = make()
        return kwargs

    return bind


def rest_converters(rest: TypeSpec, names: Any, arguments: dict[str, Any]) -> list[tuple[str, type | None, Any]]:
    """What converts the arguments that `**rest` takes."""
    return [(name, rest.exact, rest.convert) for name in arguments if name not in names]


def refusal(name: str, error: Exception) -> str:
    """What is wrong with an argument that its type refuses."""
    return f"Invalid parameters: '{name}'{misfit(error)}"


def _without_field(wanted: Any, field: Any) -> tuple[Any, Any, Callable[[], Any] | None]:
    """Takes `= Field(…)` of pydantic apart: hint, default, and what makes the default for a call."""
    if not type(field).__module__.startswith("pydantic"):
        return wanted, field, None
    from typing import Annotated, Any

    wanted = Annotated[Any if wanted is MISSING else wanted, field]
    if field.is_required():
        return wanted, MISSING, None
    shown = MISSING if field.default_factory is not None else field.default
    return wanted, shown, lambda: field.get_default(call_default_factory=True)


def parameters_of(function: Any) -> Parameters:
    """Raises ValueError for some functions that are written in C."""
    target = script.unwrapped(function)
    code = getattr(target, "__code__", None)
    is_bound = hasattr(function, "__self__") or hasattr(target, "__self__")  # a decorator may stand between
    if code is None or hasattr(function, "__signature__") or is_bound:
        return _inspected(function)
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    values = target.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(values) : code.co_argcount], values))  # noqa: B905  not in 3.9
    defaults.update(target.__kwdefaults__ or {})
    annotations = _annotations(target)
    hints = {name: annotations.get(name, MISSING) for name in names}
    rest = code.co_varnames[count + bool(code.co_flags & script.VARARGS)] if code.co_flags & script.KEYWORDS else ""
    found = Parameters(hints, defaults, _scope_of(target), rest, script.unnamed_parameter(code))
    found.rest_hint = annotations.get(rest, MISSING)
    return found


def _scope_of(function: Any) -> dict[str, Any]:
    """Where the names in its hints are looked up, with T for `def f[T](…)`."""
    scope: dict[str, Any] = function.__globals__
    variables = getattr(function, "__type_params__", ())
    return {**scope, **{it.__name__: it for it in variables}} if variables else scope


def _annotations(target: Any) -> dict[str, Any]:
    try:
        return dict(target.__annotations__)
    except Exception:  # noqa: BLE001  from Python 3.14 they are computed here, and a name may not be there
        annotationlib = __import__("annotationlib")
        return dict(annotationlib.get_annotations(target, format=annotationlib.Format.FORWARDREF))


def _inspected(function: Any) -> Parameters:
    """Of a method, a callable object, a partial, or a function that is written in C."""
    import inspect

    parameters = inspect.signature(function).parameters.values()
    inner = script.unwrapped(script.without_partial(function))
    inner = inner if hasattr(inner, "__code__") or isinstance(inner, type) else type(inner).__call__
    module = sys.modules.get(getattr(inner, "__module__", None) or "builtins")
    scope = _scope_of(inner) if hasattr(inner, "__globals__") else vars(module or sys.modules["builtins"])
    hints = {it.name: MISSING if it.annotation is it.empty else it.annotation for it in parameters}
    named = [it for it in parameters if it.kind in (it.POSITIONAL_OR_KEYWORD, it.KEYWORD_ONLY)]
    unnamed = [it.name for it in parameters if it.kind in (it.VAR_POSITIONAL, it.POSITIONAL_ONLY)]
    rest = next((it.name for it in parameters if it.kind is it.VAR_KEYWORD), "")
    found = Parameters(
        {it.name: hints[it.name] for it in named},
        {it.name: it.default for it in named if it.default is not it.empty},
        scope,
        rest,
        unnamed[0] if unnamed else "",
    )
    found.rest_hint = hints.get(rest, MISSING)
    return found
