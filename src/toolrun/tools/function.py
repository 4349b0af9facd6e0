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
from toolrun.tools.effects import Effects, Verify, hints_of, read_effects
from toolrun.tools.protocol import check_name, is_seconds
from toolrun.tools.signature import Signature, read_output, read_signature
from toolrun.worker.describe import docstring_of
from toolrun.worker.docstring import read_docstring
from toolrun.worker.script import is_async, refusal_of

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
        effects: Effects | str | None = None,
        verify: Verify | None = None,
        approval: str | None = None,
        inline: bool = False,
        isolated: bool = False,
    ) -> None:
        self.name: str = name if name is not None else getattr(function, "__name__", "")
        check_name(self.name)
        try:
            _check_kind(function)
            text, descriptions = read_docstring(docstring_of(function))
            signature = read_signature(function, descriptions)
            self.effects = read_effects(effects)
        except DefinitionError as error:
            raise DefinitionError(f"Tool '{self.name}': {error}") from error
        self.description: str = description or text
        self.title = title
        self.annotations: Mapping[str, JSON] = {**hints_of(self.effects), **(annotations or {})}
        """Hints for MCP clients: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`."""
        self.timeout = timeout
        self.verify = verify
        """Finds out whether a call has acted of which nobody knows it."""
        self.approval = approval
        """Whether a call may be made, unless the project says otherwise: `allow`, `ask` or `deny`."""
        _check_options(self.name, timeout, verify, approval)
        self.inline = inline
        self.isolated = isolated
        if isolated:
            _check_isolated(self.name, function, signature)
        self.is_async: bool = is_async(function)
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


def _check_kind(function: Callable[..., object]) -> None:
    """Refuse what a model cannot call, or what would give it no answer. A class makes an object, which is one."""
    reason = "" if isinstance(function, type) else refusal_of(function)
    if reason:
        raise DefinitionError(f"{reason}.")


def _check_isolated(name: str, function: object, signature: Signature) -> None:
    """An isolated tool runs in another process, which must be able to find the function again."""
    if not isinstance(function, FunctionType) or function.__qualname__ != function.__name__:
        raise DefinitionError(f"Tool '{name}' is isolated, so it must be a function at the top level of a module.")
    if signature.context_parameter is not None:
        raise DefinitionError(f"Tool '{name}' is isolated, so it cannot take a ToolContext: its host is far away.")


def _check_options(name: str, timeout: object, verify: object, approval: object) -> None:
    if timeout is not None and not is_seconds(timeout):
        raise DefinitionError(f"Tool '{name}': timeout must be a number of seconds > 0; got {show(timeout)}.")
    if verify is not None:
        _check_verify(name, verify)
    if approval not in (None, "allow", "ask", "deny"):
        raise DefinitionError(f"Tool '{name}': approval must be 'allow', 'ask' or 'deny'; got {show(approval)}.")


def _check_verify(name: str, verify: object) -> None:
    if callable(verify):
        try:
            inspect.signature(verify).bind("key", {})
            return
        except ValueError:  # of a builtin, which does not tell
            return
        except TypeError:
            pass
    raise DefinitionError(f"Tool '{name}': verify must be a function of two arguments, verify(key, arguments).")


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

    if fill or context:
        return invoke_with_more
    return invoke if suspects else lambda arguments: function(**arguments)


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    annotations: Mapping[str, JSON] | None = None,
    timeout: float | None = None,
    effects: Effects | str | None = None,
    verify: Verify | None = None,
    approval: str | None = None,
    inline: bool = False,
    isolated: bool = False,
) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    annotations: Mapping[str, JSON] | None = None,
    timeout: float | None = None,
    effects: Effects | str | None = None,
    verify: Verify | None = None,
    approval: str | None = None,
    inline: bool = False,
    isolated: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Any
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function, as `@tool`, `@tool(name=…, timeout=…)` or `tool(function, name=…)`."""
    if function is not None:
        return FunctionTool(function, **options)
    return lambda decorated: FunctionTool(decorated, **options)
