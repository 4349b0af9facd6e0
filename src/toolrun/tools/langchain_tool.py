"""LangChain's tools, as they are: what a model sends them, how they are called, what their answers mean.

Imports nothing of LangChain: an object can only be one of its tools when LangChain has been imported. Every tool object
that is not ours comes through `read_answer`, because adapters of other libraries answer in LangChain's forms, too.
"""

from __future__ import annotations

import copy
import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from toolrun.errors import DefinitionError, InvalidArgumentsError, ToolError
from toolrun.json import JSON, Schema, loads
from toolrun.result import Content, is_content, render
from toolrun.tools.context import current_call
from toolrun.tools.signature import Signature, read_signature

SINGLE: Final = "tool_input"
"""What LangChain's `Tool` calls its one input; its own models send `__arg1`."""
_SINGLE_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {SINGLE: {"type": "string"}},
    "required": [SINGLE],
    "additionalProperties": False,
}
_TAKEN: Final = ("config", "run_manager", "callbacks", "args", "kwargs", "self")
"""Parameters of `StructuredTool` itself: LangChain does not pass arguments of these names on to the function."""
_PLACEHOLDER: Final = "arguments"

Invoke = Callable[[dict[str, JSON]], object]


def is_langchain(tool: object) -> bool:
    # A thread may be importing LangChain: a module that has no such class yet has no objects of it either.
    kind = getattr(sys.modules.get("langchain_core.tools.base"), "BaseTool", None)
    return kind is not None and isinstance(tool, kind)


def is_single_input(tool: Any) -> bool:
    """Whether it is a `Tool(name, func, description)`, whose function takes one text."""
    kind = getattr(sys.modules.get("langchain_core.tools.simple"), "Tool", None)
    return kind is not None and isinstance(tool, kind) and tool.args_schema is None


def rename_single(given: dict[str, JSON]) -> tuple[dict[str, JSON], dict[str, str]]:
    """LangChain takes the one input of a `Tool` by any name."""
    if len(given) == 1:
        ((name, value),) = given.items()
        if name != SINGLE and isinstance(value, str):
            return {SINGLE: value}, {name: SINGLE}
    return given, {}


def langchain_schema(tool: Any) -> Mapping[str, JSON]:
    """What a model is to send: without what LangChain's runtime injects, and with what it would swallow."""
    if is_single_input(tool):
        return _SINGLE_SCHEMA
    swallowed = _swallowing(tool)
    if swallowed is not None:
        return swallowed.schema
    declared = tool.tool_call_schema
    if isinstance(declared, Mapping):
        return declared
    if not hasattr(declared, "model_json_schema"):
        return cast(Mapping[str, JSON], declared.schema())  # a model of pydantic 1
    from toolrun.worker.pydantic_types import move_patterns

    schema: Schema = copy.deepcopy(declared.model_json_schema())
    move_patterns(schema, declared)
    extra = getattr(tool.args_schema, "model_config", {}).get("extra")  # LangChain's model for calls has lost it
    if extra in ("allow", "forbid"):
        schema["additionalProperties"] = extra == "allow"
    for name, hint in _hints(_function(tool)).items():
        if _is_config(hint):  # a class that declares it in `_run` has it in its schema
            cast(Schema, schema.get("properties", {})).pop(name, None)
            schema["required"] = [it for it in cast(list[str], schema.get("required", [])) if it != name]
    return schema


def takes_any_names(tool: Any) -> bool:
    """Whether LangChain passes on what the schema does not list, and the function takes it, as adapters for MCP do."""
    if not isinstance(tool.args_schema, Mapping):
        return False
    try:
        found = [inspect.signature(it).parameters.values() for it in _functions(tool)]
    except (ValueError, TypeError):  # as in `_named_parameters`
        return False
    return all(any(it.kind is it.VAR_KEYWORD for it in parameters) for parameters in found)


def check_langchain(tool: Any) -> None:
    """Raises DefinitionError for a tool that waits for an argument which only LangChain's own runtime would inject."""
    for name, hint, is_required in _parameters(tool):
        marks = _marks(hint)
        if is_required and marks and not any(_is_call_id(mark) for mark in marks):
            raise DefinitionError(
                f"parameter '{name}' is injected by LangGraph ({_name(marks[0])}), which does not run here. "
                f"Give '{name}' a default, or add a function that passes it"
            )
    _swallowing(tool)


def langchain_invoker(tool: Any) -> tuple[Invoke, Callable[[dict[str, JSON]], Awaitable[object]]]:
    """`invoke` and `ainvoke` of a LangChain tool, with the call's id, and answers read."""
    target = _unswallowed(tool)
    call_ids = [name for name, hint, _ in _parameters(tool) if any(map(_is_call_id, _marks(hint)))]
    is_message = bool(
        call_ids
        or tool.response_format == "content_and_artifact"
        or tool.handle_tool_error
        or tool.handle_validation_error
    )
    wants_data = _returns_data(tool)

    def sent(arguments: dict[str, JSON]) -> Any:
        given = arguments if target is tool else {_PLACEHOLDER: arguments}
        if not is_message and given.get("type") != "tool_call":  # which LangChain would take for a call of its own
            return given
        running = current_call.get()
        call_id = "" if running is None else running.id
        given = {**given, **dict.fromkeys(call_ids, call_id)}
        return {"type": "tool_call", "id": call_id, "name": tool.name, "args": given}

    def invoke(arguments: dict[str, JSON]) -> object:
        try:
            return read_answer(target.invoke(sent(arguments)), wants_data)
        except ValueError as error:
            raise _refusal(tool, error) from error

    async def ainvoke(arguments: dict[str, JSON]) -> object:
        try:
            return read_answer(await target.ainvoke(sent(arguments)), wants_data)
        except ValueError as error:
            raise _refusal(tool, error) from error

    return invoke, ainvoke


def read_answer(value: object, wants_data: bool = False) -> object:
    """What a foreign tool returned, as a result: of a message its content, of (content, artifact) the content.

    Raises ToolError for a message that tells of a failure.
    """
    messages = sys.modules.get("langchain_core.messages.tool")
    if messages is not None and isinstance(value, messages.ToolMessage):
        if value.status == "error":
            raise ToolError(render(_blocks(value.content)) or "the tool failed")
        if wants_data and isinstance(value.content, str):
            return _with_artifact(_decoded(value.content), value.artifact)
        return _with_artifact(value.content, value.artifact)
    if isinstance(value, tuple | list) and len(value) == 2 and _is_pair(value):
        return _with_artifact(value[0], value[1])
    return value


def split_pair(value: object) -> object:
    """Of a tool that says so, any pair is (content, artifact)."""
    is_pair = isinstance(value, tuple) and len(value) == 2
    return _with_artifact(value[0], value[1]) if is_pair else read_answer(value)  # type: ignore[index]  # a tuple


def _is_pair(value: Any) -> bool:
    """Whether it is (text, artifacts), as adapters for MCP return it, and not two values."""
    content, artifacts = value
    if not isinstance(content, str) and not (isinstance(content, list) and is_content(content)):
        return False
    if isinstance(value, list):  # a list of two is data, unless the artifacts tell that they are some
        return isinstance(artifacts, list) and all(isinstance(it, dict) and "type" in it for it in artifacts)
    return artifacts is None or isinstance(artifacts, list)


def _with_artifact(content: Any, artifact: object) -> object:
    if isinstance(content, list) and any(isinstance(it, dict) for it in content):
        content = _blocks(content)
        if is_content(content):
            return Content(content, artifact=artifact)
    if artifact is None:
        return content
    return Content([], content, artifact=artifact)


def _blocks(content: Any) -> Any:
    """The content of a message; texts in a list are blocks, too."""
    if not isinstance(content, list):
        return content
    return [{"type": "text", "text": it} if isinstance(it, str) else it for it in content]


def _decoded(text: str) -> object:
    """LangChain writes what is not text as JSON, or else as Python would print it."""
    try:
        return loads(text)
    except ValueError:
        return text


def _refusal(tool: Any, error: ValueError) -> Exception:
    """LangChain's own check of the arguments, as a refusal; any other error as it is."""
    errors = getattr(error, "errors", None)
    if not callable(errors) or getattr(error, "title", "") != getattr(tool.args_schema, "__name__", None):
        return error
    found = [(it["loc"], it["msg"]) for it in errors()[:5]]
    parts = ("".join(f"[{part!r}]" for part in where[1:]) for where, _ in found)
    told = (f"'{where[0]}'{part} {why}" if where else why for (where, why), part in zip(found, parts, strict=True))
    return InvalidArgumentsError(f"Invalid parameters: {'; '.join(told)}")


def _functions(tool: Any) -> list[Any]:
    """What a tool runs: its function, its coroutine, or what its class defines."""
    given = [it for it in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if it is not None]
    return given or [tool._run, tool._arun]


def _function(tool: Any) -> Any:
    return _functions(tool)[0]


def _hints(function: Any) -> dict[str, Any]:
    target = getattr(function, "func", function)  # of a partial
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001  the function's own names; LangChain looks no further either
        return dict(getattr(target, "__annotations__", {}))


def _parameters(tool: Any) -> list[tuple[str, Any, bool]]:
    """What the function and the schema of a tool take: name, hint, and whether it must be given."""
    schema = tool.args_schema
    fields = getattr(schema, "model_fields", {})
    annotations = _hints(schema) if fields else {}
    found = {
        name: (name, annotations.get(name, field.annotation), field.is_required()) for name, field in fields.items()
    }
    for function in _functions(tool):
        hints = _hints(function)
        for name, it in _named_parameters(function).items():
            has_default = it.default is not it.empty or (name in fields and not fields[name].is_required())
            hint = hints.get(name, it.annotation)
            if name not in found or _marks(hint):
                found[name] = (name, hint, not has_default)
    return list(found.values())


def _named_parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):  # some functions that are written in C
        return {}
    return {name: it for name, it in parameters.items() if it.kind in (it.POSITIONAL_OR_KEYWORD, it.KEYWORD_ONLY)}


def _marks(hint: Any) -> list[Any]:
    """The marks of LangChain that say that an argument is injected."""
    base: Any = sys.modules["langchain_core.tools.base"]
    direct = getattr(base, "_DirectlyInjectedToolArg", None)
    kind = typing.get_origin(hint) or hint
    if direct is not None and isinstance(kind, type) and issubclass(kind, direct):
        return [kind]
    found = (it for it in getattr(hint, "__metadata__", ()))
    marks = [it for it in found if issubclass(it if isinstance(it, type) else type(it), base.InjectedToolArg)]
    return marks or [mark for option in _options(hint) for mark in _marks(option)]


def _options(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType"
    return typing.get_args(hint) if is_union else ()


def _is_call_id(mark: Any) -> bool:
    base: Any = sys.modules["langchain_core.tools.base"]
    return issubclass(mark if isinstance(mark, type) else type(mark), base.InjectedToolCallId)


def _name(mark: Any) -> str:
    return str((mark if isinstance(mark, type) else type(mark)).__name__)


def _is_config(hint: Any) -> bool:
    config = getattr(sys.modules.get("langchain_core.runnables.config"), "RunnableConfig", None)
    return config is not None and (hint is config or config in typing.get_args(hint))


def _returns_data(tool: Any) -> bool:
    """Whether the function says that it returns something else than text."""
    if tool.response_format != "content":
        return False
    hint = _hints(_function(tool)).get("return", str)
    return hint not in (str, Any) and "str" not in map(str, (hint, getattr(hint, "__name__", "")))


def _swallowing(tool: Any) -> Signature | None:
    """How the function of a StructuredTool is called, if it has parameters that LangChain keeps for itself."""
    structured = sys.modules.get("langchain_core.tools.structured")
    if structured is None or type(tool) is not structured.StructuredTool:
        return None
    function = _function(tool)
    hints, taken = _hints(function), []
    for name in _named_parameters(function):
        hint = hints.get(name)
        if name in _TAKEN and "langchain" not in repr(hint) and (hint is not None or name == "config"):
            taken.append(name)
    if not taken or isinstance(tool.args_schema, dict):
        return None
    if any(_marks(hint) for _, hint, _ in _parameters(tool)):
        raise DefinitionError(f"LangChain keeps the parameter name '{taken[0]}' for itself. Rename the parameter")
    return read_signature(function, {})


def _unswallowed(tool: Any) -> Any:
    """The tool, or one like it whose function gets all of its arguments.

    A StructuredTool has no state of its own, so its owner cannot tell the difference.
    """
    signature = _swallowing(tool)
    if signature is None:
        return tool
    func, coroutine = tool.func, tool.coroutine

    def call(arguments: dict[str, Any]) -> object:
        return func(**signature.convert(arguments))

    async def call_later(arguments: dict[str, Any]) -> object:
        return await coroutine(**signature.convert(arguments))

    schema = {"type": "object", "properties": {_PLACEHOLDER: {"type": "object"}}}
    changes = {"func": func and call, "coroutine": coroutine and call_later, "args_schema": schema}
    return tool.model_copy(update=changes)
