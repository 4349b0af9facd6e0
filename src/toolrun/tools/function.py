"""What a tool is: anything with `name`, `description`, `schema` (or `args_schema`) and `invoke` or `ainvoke`.

`FunctionTool` makes one of a function. Nothing here checks arguments or runs a tool under a deadline: the executor
does.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast, overload

from toolrun.errors import DefinitionError
from toolrun.json import JSON, Schema
from toolrun.tools.context import running_context
from toolrun.tools.docstring import read_docstring
from toolrun.tools.signature import Signature, read_output, read_signature

P = ParamSpec("P")
R = TypeVar("R")

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class FunctionTool(Generic[P, R]):
    """A function that models can call. Calling the object calls the function as it is."""

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
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(f"Tool '{self.name}': a generator has no single answer; return a list instead.")
        try:
            text, descriptions = read_docstring(_docstring(function))
            signature = read_signature(function, descriptions)
        except DefinitionError as error:
            raise DefinitionError(f"Tool '{self.name}': {error}") from error
        self.description: str = description or text
        self.title = title
        hints: dict[str, JSON] = {"idempotentHint": True} if idempotent else {}
        self.annotations: Mapping[str, JSON] = {**hints, **(annotations or {})}
        """Hints for MCP clients: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`."""
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


def _docstring(function: object) -> str | None:
    """Of a partial object or of one with `__call__`, the docstring of what is called."""
    if isinstance(function, functools.partial):
        return _docstring(function.func)
    return function.__doc__ or (None if inspect.isroutine(function) else type(function).__call__.__doc__)


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


def as_tool(candidate: object) -> Any:
    """The tool that `candidate` is or makes. Raises DefinitionError if there is none.

    A tool object is returned as it is, whatever made it; only functions are wrapped.
    """
    if isinstance(candidate, FunctionTool):
        found: Any = candidate
    elif not isinstance(candidate, type) and (hasattr(candidate, "invoke") or hasattr(candidate, "ainvoke")):
        found = candidate
        check_name(getattr(candidate, "name", None))
    elif callable(candidate) and not isinstance(candidate, type):
        found = FunctionTool(candidate)
    else:
        hint = " Pass an instance of the class." if isinstance(candidate, type) else ""
        raise DefinitionError(
            f"{candidate!r:.100} is no tool: it needs to be a function, or an object with name, description, schema "
            f"and invoke or ainvoke.{hint}"
        )
    description = getattr(found, "description", None)
    if not isinstance(description, str) or not description.strip():
        raise DefinitionError(
            f"Tool '{found.name}' has no description, so a model cannot know when to use it. "
            "Add a docstring, or pass description=."
        )
    return found


def check_name(name: object) -> None:
    """Raises DefinitionError unless `name` is one that every consumer can carry."""
    if not isinstance(name, str) or not name:
        raise DefinitionError("The tool has no name. Give it one with @tool(name=…).")
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"The tool name {name!r:.150} cannot be used: names are 1 to 128 characters out of A-Z a-z 0-9 _ . -"
        )


def schema_of(found: Any) -> Mapping[str, JSON]:
    """The JSON Schema of a tool's arguments, from wherever its kind of object keeps it."""
    schema = getattr(found, "schema", None)
    if isinstance(schema, Mapping):
        return schema
    # LangChain: `tool_call_schema` is `args_schema` without the arguments that its own runtime injects.
    declared = getattr(found, "tool_call_schema", None) or getattr(found, "args_schema", None)
    if declared is None and schema is not None and not callable(schema):
        declared = schema
    if isinstance(declared, Mapping):
        return declared
    make = getattr(declared, "model_json_schema", None) or getattr(declared, "schema", None)
    if make is None:
        raise DefinitionError("there is no schema; the tool needs 'schema' or 'args_schema'")
    return cast(Mapping[str, JSON], make())
