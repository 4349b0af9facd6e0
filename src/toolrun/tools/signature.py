"""How a function is called with JSON arguments: its schema, what converts the arguments, and where the context goes.

What hints mean is read by `toolrun.worker`, for functions here as for scripts: the same function has the same schema
and gets the same values in both. Here is what only the host has: a ToolContext, the schema of what is returned, and
hints that nobody can express are refused, because the author of the function is near.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, Union, get_args, get_origin

from toolrun.errors import DefinitionError, InvalidArgumentsError
from toolrun.json import Schema
from toolrun.tools.context import ToolContext
from toolrun.worker.describe import (
    FunctionSpec,
    Parameters,
    parameters_of,
    read_parameters,
    refusal,
    rest_converters,
)
from toolrun.worker.hint import HintReader
from toolrun.worker.script import without_partial
from toolrun.worker.type_spec import PLAIN, PLAIN_NAMES

_JSON_TYPES: Final[set[type]] = {str, int, float, bool, list, dict, type(None)}
_SUSPECTS: Final[dict[type | None, set[type]]] = {int: {float}, float: {int}}
"""JSON has one number type: 3.0 is an integer, and 3 is a number."""


class Signature:
    """How to call a function with JSON arguments."""

    __slots__ = ("_converters", "_names", "_rest", "context_parameter", "fill", "schema", "suspects")

    def __init__(self, spec: FunctionSpec, context_parameter: str | None) -> None:
        self.schema: Schema = spec.schema
        self.fill = spec.factories
        """What makes the defaults of parameters that are written `= Field(default=…)`."""
        self.context_parameter = context_parameter
        self._converters = [(name, it.exact, it.convert) for name, it in spec.types.items() if not it.as_is]
        self.suspects: set[type] = set()
        """Types of JSON values that `convert` may have to change; most arguments contain none of them."""
        self._rest = spec.rest if spec.rest is not None and not spec.rest.as_is else None
        self._names = frozenset(spec.schema["properties"])
        for exact in [it[1] for it in self._converters] + ([] if self._rest is None else [self._rest.exact]):
            self.suspects |= _SUSPECTS.get(exact, _JSON_TYPES)

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, which fit the schema, as the function's own types. Leaves the given dict alone."""
        converted = dict(arguments)
        chosen = self._converters
        if self._rest is not None:
            chosen = [*chosen, *rest_converters(self._rest, self._names, arguments)]
        for name, exact, convert in chosen:
            if name in arguments and type(arguments[name]) is not exact and convert is not None:
                try:
                    converted[name] = convert(arguments[name])
                except Exception as error:  # foreign constructors
                    raise InvalidArgumentsError(refusal(name, error)) from error
        return converted


def read_signature(function: Callable[..., object], descriptions: dict[str, str]) -> Signature:
    """Raises DefinitionError for a function that cannot be called with named JSON arguments."""
    parameters = _parameters(function)
    reader = HintReader(parameters.scope)
    contexts = [name for name, hint in parameters.hints.items() if _is_context(hint, reader)]
    if len(contexts) > 1:
        raise DefinitionError(f"parameters '{contexts[0]}' and '{contexts[1]}' are both a ToolContext; keep one")
    for name in contexts:
        del parameters.hints[name]
    spec = read_parameters(parameters, descriptions)
    for name, problem in spec.problems:
        if problem.unresolved:
            raise DefinitionError(
                f"the type hint of parameter '{name}' cannot be resolved ({problem.unresolved}); "
                "hints must name types that are importable where the function is"
            )
        reason = problem.detail or problem.reason
        raise DefinitionError(f"parameter '{name}' has a type that JSON cannot express: {reason}")
    return Signature(spec, contexts[0] if contexts else None)


def read_output(function: Callable[..., object]) -> Schema | None:
    """The JSON Schema of what a function returns, if that is an object whose fields are known; otherwise None."""
    target = without_partial(function)
    target = target if inspect.isroutine(target) else type(target).__call__
    written = getattr(target, "__annotations__", {}).get("return")
    if written is None or (isinstance(written, type | str) and (written in PLAIN or written in PLAIN_NAMES)):
        return None  # most functions; to resolve all hints takes longer than the rest of a listing
    try:
        hint = typing.get_type_hints(target, include_extras=True).get("return")
    except Exception:  # noqa: BLE001  the hint's own names
        return None
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kind = get_origin(bare) or bare
    has_fields = dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_json_schema")
    return _output_schema(bare) if has_fields else None


def _output_schema(hint: Any) -> Schema | None:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    from toolrun.worker.pydantic_types import for_pydantic

    class AsWritten(GenerateJsonSchema):
        """Where `result.normalise` writes something else than pydantic."""

        def timedelta_schema(self, schema: object) -> Schema:
            return {"type": "number"}

        def decimal_schema(self, schema: object) -> Schema:
            return {"anyOf": [{"type": "number"}, {"type": "string"}]}

    try:
        # By the names of the fields, as objects are written.
        adapter: TypeAdapter[Any] = TypeAdapter(for_pydantic(hint))
        schema: Schema = adapter.json_schema(mode="serialization", by_alias=False, schema_generator=AsWritten)
    except (PydanticUserError, TypeError, NameError, RecursionError):
        return None
    return schema if schema.get("type") == "object" else None


def _is_context(hint: object, reader: HintReader) -> bool:
    if isinstance(hint, type) or (type(hint) is str and hint in PLAIN_NAMES):  # most hints, and the rest is slow
        return hint is ToolContext
    try:
        hint = reader.resolve(hint)
    except Exception:  # noqa: BLE001  the hint's own names, of which `read_parameters` tells
        return False
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        return any(_is_context(it, reader) for it in get_args(hint))
    return hint is ToolContext


def _parameters(function: Callable[..., object]) -> Parameters:
    try:
        parameters = parameters_of(function)
    except ValueError as error:  # some functions that are written in C
        raise DefinitionError(
            f"its parameters are not known ({error}); wrap it in a function with type hints"
        ) from None
    if parameters.unnamed:
        raise DefinitionError(
            f"parameter '{parameters.unnamed}' cannot be passed by name; a model passes all arguments by name"
        )
    return parameters
