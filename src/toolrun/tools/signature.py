"""Type hints → JSON Schema, and JSON arguments → values of the annotated types.

Plain hints (str, int, list[str], Optional, Literal, …) are translated here: that is most tools, takes microseconds and
needs no import. Everything richer (dataclass, Enum, TypedDict, date-time, pydantic model, constraints) is pydantic's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from toolrun.errors import DefinitionError, InvalidArgumentsError
from toolrun.json import JSON, Schema
from toolrun.tools.context import ToolContext

Convert = Callable[[Any], Any]

_EMPTY: Final = inspect.Parameter.empty
_COMPUTED: Final = object()
"""The default of a parameter that is computed for each call."""
_PLAIN: Final[dict[object, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    object: {},
    _EMPTY: {},
}


_JSON_TYPES: Final[set[type]] = {str, int, float, bool, list, dict, type(None)}
_SUSPECTS: Final[dict[object, set[type]]] = {int: {float}, float: {int}}


class Signature:
    """How to call a function with JSON arguments."""

    __slots__ = ("_converters", "context_parameter", "fill", "schema", "suspects")

    def __init__(
        self,
        schema: Schema,
        converters: list[tuple[str, object, Convert]],
        fill: dict[str, Callable[[], object]],
        context_parameter: str | None,
    ) -> None:
        self.schema = schema
        self._converters = converters
        self.fill = fill
        """What makes the defaults of parameters that are written `= Field(default=…)`."""
        self.context_parameter = context_parameter
        self.suspects: set[type] = set()
        """Types of JSON values that `convert` may have to change; most arguments contain none of them."""
        for _, exact, _ in converters:
            self.suspects |= _SUSPECTS.get(exact, _JSON_TYPES)

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the function's own types. Leaves the given dict alone."""
        converted = dict(arguments)
        for name, exact, convert in self._converters:
            if name in arguments and type(arguments[name]) is not exact:
                try:
                    converted[name] = convert(arguments[name])
                except (ValueError, OverflowError) as error:  # pydantic's ValidationError is the former
                    raise InvalidArgumentsError(f"Invalid parameters: '{name}' {_reason(error)}") from error
        return converted


def read_signature(function: Callable[..., object], descriptions: dict[str, str]) -> Signature:
    """Raises DefinitionError for a function that cannot be called with named JSON arguments."""
    hints = _hints(function)
    properties: Schema = {}
    required: list[JSON] = []
    converters: list[tuple[str, object, Convert]] = []
    fill: dict[str, Callable[[], object]] = {}
    rich: dict[str, tuple[object, object]] = {}
    context_parameter: str | None = None
    open_ended = False
    for name, parameter in _parameters(function).items():
        hint, default = hints.get(name, _EMPTY), parameter.default
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"parameter '{name}' cannot be passed by name; a model passes all arguments by name")
        if _is_context(hint):
            if context_parameter is not None:
                raise DefinitionError(f"parameters '{context_parameter}' and '{name}' are both a ToolContext; keep one")
            context_parameter = name
            continue
        hint, description, default, make_default = _unwrapped(hint, default)
        if make_default is not None:
            fill[name] = make_default
        schema = _plain_schema(hint)
        if schema is None:
            rich[name] = (hint, default)
            schema = {}
        elif (convert := _plain_convert(hint)) is not None:
            converters.append((name, hint, convert))
        properties[name] = schema = dict(schema)
        if description or name in descriptions:
            schema["description"] = description or descriptions[name]
        if default is _EMPTY:
            required.append(name)
        elif name not in rich:
            schema.update(_shown_default(default))
    schema = {"type": "object", "properties": properties, "additionalProperties": open_ended}
    if required:
        schema["required"] = required
    if rich:
        _add_rich(schema, rich, converters)
    return Signature(schema, converters, fill, context_parameter)


def read_output(function: Callable[..., object]) -> Schema | None:
    """The JSON Schema of what a function returns, if that is an object whose fields are known; otherwise None."""
    if inspect.isfunction(function):
        written = function.__annotations__.get("return")
        if written is None or written in (str, int, float, bool, list, dict, "str", "int", "float", "bool", "None"):
            return None  # most functions; to resolve all hints takes longer than the rest of a listing
    try:
        hint = _hints(function).get("return")
    except DefinitionError:
        return None
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kind = get_origin(bare) or bare
    has_fields = dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_json_schema")
    if not has_fields:
        return None
    from pydantic import PydanticUserError, TypeAdapter

    try:
        # By the names of the fields: so are objects written (`result.normalise`).
        schema: Schema = TypeAdapter(_for_pydantic(bare)).json_schema(mode="serialization", by_alias=False)
    except (PydanticUserError, TypeError, NameError, RecursionError):
        return None
    return schema if schema.get("type") == "object" else None


def _is_context(hint: object) -> bool:
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        return any(map(_is_context, get_args(hint)))
    return hint is ToolContext


def _parameters(function: Callable[..., object]) -> typing.Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError as error:  # some functions that are written in C
        raise DefinitionError(
            f"its parameters are not known ({error}); wrap it in a function with type hints"
        ) from None


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    target = function
    if isinstance(function, functools.partial):
        target = function.func
    elif not inspect.isroutine(function):
        target = type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception as error:
        raise DefinitionError(
            f"a type hint cannot be resolved ({error}); hints must name types that are importable where the function is"
        ) from error


def _unwrapped(hint: Any, default: object) -> tuple[Any, str, object, Callable[[], object] | None]:
    """Takes `Annotated[T, "text"]` and `= Field(…)` apart: hint, description, real default and what makes it."""
    description, make_default = "", None
    if type(default).__name__ == "FieldInfo" and type(default).__module__.startswith("pydantic"):
        field: Any = default
        hint = Annotated[hint if hint is not _EMPTY else Any, field]
        default = _EMPTY
        if not field.is_required():
            make_default = functools.partial(field.get_default, call_default_factory=True)
            default = make_default() if field.default_factory is None else _COMPUTED
    if get_origin(hint) is Annotated:
        base, *metadata = get_args(hint)
        texts = [text for text in metadata if isinstance(text, str)]
        rest = [item for item in metadata if not isinstance(item, str)]
        description = " ".join(texts) or next((str(d) for i in rest if (d := getattr(i, "description", None))), "")
        hint = Annotated[base, *rest] if rest else base
    return hint, description, default, make_default


def _shown_default(default: object) -> Schema:
    """A default as it stands in the schema, unless JSON cannot express it."""
    if default is None or type(default) in (str, int, bool):
        return {"default": typing.cast(JSON, default)}
    try:
        return {"default": json.loads(json.dumps(default, allow_nan=False))}
    except (TypeError, ValueError):
        return {}


def _plain_schema(hint: Any) -> Schema | None:
    """The schema of a hint that needs no pydantic; None for one that does."""
    try:
        if hint in _PLAIN:
            return _PLAIN[hint]
    except TypeError:  # not hashable
        return None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal and all(type(value) in (str, int, bool, type(None)) for value in arguments):
        kinds = {type(value) for value in arguments}
        schema: Schema = {"enum": list(arguments)}
        return {**_PLAIN[kinds.pop()], **schema} if len(kinds) == 1 else schema
    if origin in (Union, types.UnionType):
        options = [_plain_schema(option) for option in arguments]
        return None if None in options else {"anyOf": typing.cast(list[JSON], options)}
    if origin is list and len(arguments) == 1:
        items = _plain_schema(arguments[0])
        return None if items is None else {"type": "array", "items": items}
    if origin is dict and arguments[:1] == (str,):
        values = _plain_schema(arguments[1])
        return None if values is None else {"type": "object", "additionalProperties": values}
    return None


def _plain_convert(hint: Any) -> Convert | None:
    """JSON has one number type: 3.0 is an integer, and 3 is a number."""
    if hint is int or hint is float:
        return typing.cast(Convert, hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal and int in map(type, arguments):
        return _whole
    if origin in (Union, types.UnionType):
        options = [option for option in arguments if option is not type(None)]
        if len(options) > 1:
            return _whole if int in options and float not in options else None
        inner, apply = _plain_convert(options[0]), _optional
    elif origin is list:
        inner, apply = _plain_convert(arguments[0]), _items
    elif origin is dict:
        inner, apply = _plain_convert(arguments[1]), _entries
    else:
        return None
    return inner and functools.partial(apply, inner)


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float else value


def _optional(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _items(convert: Convert, value: Any) -> Any:
    return [convert(item) for item in value]


def _entries(convert: Convert, value: Any) -> Any:
    return {key: convert(item) for key, item in value.items()}


def _add_rich(
    schema: Schema, rich: dict[str, tuple[object, object]], converters: list[tuple[str, object, Convert]]
) -> None:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic_core import PydanticSerializationError

    adapters: dict[str, TypeAdapter[Any]] = {}
    for name, (hint, _) in rich.items():
        try:
            adapters[name] = TypeAdapter(_for_pydantic(hint))
            adapters[name].json_schema()
        except (PydanticUserError, TypeError, NameError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            if isinstance(error, RecursionError):
                reason = "it contains itself; declare it with typing_extensions.TypedDict, or as a dataclass"
            raise DefinitionError(f"parameter '{name}' has a type that JSON cannot express: {reason}") from error
    schemas, shared = TypeAdapter.json_schemas([(name, "validation", it) for name, it in adapters.items()])
    properties = typing.cast(dict[str, Schema], schema["properties"])
    for (name, _), made in schemas.items():
        properties[name].update({key: value for key, value in made.items() if key not in ("title", *properties[name])})
        properties[name].pop("default", None)
        default = rich[name][1]
        if default is not _EMPTY:
            with contextlib.suppress(PydanticSerializationError):
                shown = adapters[name].dump_python(default, mode="json", warnings=False)
                properties[name].update(_shown_default(shown))
        converters.append((name, _EMPTY, functools.partial(_validated, adapters[name])))
    if "$defs" in shared:
        schema["$defs"] = shared["$defs"]


def _validated(adapter: Any, value: object) -> object:
    from pydantic_core import to_json

    # As JSON, not as Python objects: a strict model takes text for a date-time and a list for a set only there.
    return adapter.validate_json(to_json(value))


def _for_pydantic(hint: Any) -> Any:
    """Before Python 3.12 pydantic takes only typing_extensions' TypedDict; users write typing's."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        import typing_extensions as te

        fields: dict[str, Any] = {}
        for name, field in typing.get_type_hints(hint, include_extras=True).items():
            # An explicit mark decides: where annotations are text, __required_keys__ does not see it.
            mark = get_origin(field) if get_origin(field) in (te.Required, te.NotRequired) else None
            inner = _for_pydantic(get_args(field)[0] if mark else field)
            is_required = name in hint.__required_keys__ if mark is None else mark is te.Required
            fields[name] = te.Required[inner] if is_required else te.NotRequired[inner]
        return te.TypedDict(hint.__name__, fields)  # type: ignore[operator]  # the functional form, from data
    arguments = get_args(hint)
    if not arguments or get_origin(hint) is Literal:
        return hint
    replaced = tuple(_for_pydantic(argument) for argument in arguments)
    if replaced == arguments:
        return hint
    origin = get_origin(hint)
    if origin is Annotated:
        return Annotated[replaced[0], *hint.__metadata__]
    return Union[replaced] if origin in (Union, types.UnionType) else origin[replaced]  # noqa: UP007  of a tuple


def _reason(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return f"cannot be used: {error}"
    places = ("".join(f"[{part!r}]" for part in item["loc"]) + f" {item['msg']}" for item in errors()[:5])
    return "cannot be used: " + "; ".join(place.strip() for place in places)
