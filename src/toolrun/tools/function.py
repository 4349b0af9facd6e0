"""`@tool`: a function as a tool. Nothing here checks arguments or runs a tool under a deadline: the executor does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast, overload

from toolrun.errors import DefinitionError
from toolrun.json import JSON, Schema
from toolrun.schema.origin import Origin
from toolrun.text import show
from toolrun.tools.context import running_context
from toolrun.tools.protocol import check_name, is_seconds
from toolrun.tools.signature import Signature, read_output, read_signature
from toolrun.worker.describe import docstring_of
from toolrun.worker.docstring import read_docstring
from toolrun.worker.script import unbound_method

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Generic[P, R]):
    """A function that models can call. Calling the object calls the function as it is."""

    schema_origin: ClassVar[Origin] = Origin.SIGNATURE

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        annotations: Mapping[str, JSON] | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        inline: bool = False,
        isolated: bool = False,
    ) -> None:
        self.name: str = name if name is not None else getattr(function, "__name__", "")
        check_name(self.name)
        method = unbound_method(function)
        if method:
            raise DefinitionError(f"Tool '{self.name}': {method}.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(f"Tool '{self.name}': a generator has no single answer; return a list instead.")
        try:
            text, descriptions = read_docstring(docstring_of(function))
            signature = read_signature(function, descriptions)
        except DefinitionError as error:
            raise DefinitionError(f"Tool '{self.name}': {error}") from error
        self.description: str = description or text
        self.title = title
        hints: dict[str, JSON] = {"idempotentHint": True} if idempotent else {}
        self.annotations: Mapping[str, JSON] = {**hints, **(annotations or {})}
        """Hints for MCP clients: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`."""
        if timeout is not None and not is_seconds(timeout):
            raise DefinitionError(f"Tool '{self.name}': timeout must be a number of seconds > 0; got {show(timeout)}.")
        self.timeout = timeout
        self.idempotent = idempotent
        self.inline = inline
        self.isolated = isolated
        if isolated:
            _check_isolated(self.name, function, signature)
        self.is_async: bool = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object may have an async __call__
        )
        self.schema: Schema = signature.schema
        self.function: Callable[..., Any] = function
        self.invoke: Callable[[dict[str, Any]], object] = _invoker(function, signature)
        """Call with checked JSON arguments: the value, or for an async function the coroutine."""
        functools.update_wrapper(self, function, updated=())

    @functools.cached_property
    def output_schema(self) -> Schema | None:
        """The JSON Schema of the result, if the function says that it returns an object with known fields."""
        return read_output(self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self.function(*args, **kwargs))

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name!r}>"


def _check_isolated(name: str, function: object, signature: Signature) -> None:
    """An isolated tool runs in another process, which must be able to find the function again."""
    if not isinstance(function, FunctionType) or function.__qualname__ != function.__name__:
        raise DefinitionError(f"Tool '{name}' is isolated, so it must be a function at the top level of a module.")
    if signature.context_parameter is not None:
        raise DefinitionError(f"Tool '{name}' is isolated, so it cannot take a ToolContext: its host is far away.")


def _invoker(function: Callable[..., object], signature: Signature) -> Callable[[dict[str, Any]], object]:
    """What calls the function; a closure, because this is the innermost of every call."""
    suspects, convert, fill, context = (
        signature.suspects,
        signature.convert,
        signature.fill,
        signature.context_parameter,
    )

    def invoke(arguments: dict[str, Any]) -> object:
        for value in arguments.values():
            if type(value) in suspects:
                return function(**convert(arguments))
        return function(**arguments)

    def invoke_with_more(arguments: dict[str, Any]) -> object:
        converted = convert(arguments)
        for name, make_default in fill.items():
            if name not in converted:
                converted[name] = make_default()
        if context is not None:  # whatever the model sent under that name to a function with **kwargs
            converted[context] = running_context()
        return function(**converted)

    return invoke_with_more if fill or context else invoke


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    annotations: Mapping[str, JSON] | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
    inline: bool = False,
    isolated: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Any
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function, as `@tool` or `@tool(name=…, timeout=…)`."""
    if function is not None:
        return FunctionTool(function)
    return lambda decorated: FunctionTool(decorated, **options)
