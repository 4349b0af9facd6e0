"""What the executor derives from a tool, once: its validator, how it is to be run, its limits."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any

from toolrun.config.model import ToolSettings
from toolrun.errors import DefinitionError
from toolrun.tools.function import FunctionTool, schema_of


class Mode(Enum):
    """Where a tool's body runs."""

    LOOP = "loop"
    """A coroutine, on the event loop, in a task of its own."""
    THREAD = "thread"
    """A blocking function, in a thread of our own."""
    REMOTE = "remote"
    """Elsewhere, without any code of the tool's on this loop: the tool has `submit`."""
    ISOLATED = "isolated"
    """In a process of its own."""
    INLINE = "inline"
    """On the caller's stack: a function that promises not to block, or a coroutine that cannot suspend."""


class Binding:
    """A tool, ready to run."""

    __slots__ = (
        "_has_artifact",
        "concurrency",
        "invoke",
        "mode",
        "name",
        "rename",
        "schema",
        "takes",
        "timeout",
        "tool",
    )

    def __init__(self, tool: Any, settings: ToolSettings, timeout: float) -> None:
        self.tool = tool
        self.name: str = tool.name
        from toolrun.schema import ArgumentSchema  # here, because importing toolrun should not load a validator

        try:
            self.schema = ArgumentSchema(schema_of(tool))
        except DefinitionError as error:
            raise DefinitionError(f"Tool '{tool.name}': {error}") from error
        self.takes = self.schema.takes
        self.rename = getattr(tool, "rename_arguments", None)
        """Of a tool whose parameters may be called by other names: gives them their own."""
        if self.rename is not None:
            self.takes = self.schema.takes_named
        self.timeout: float = settings.timeout or _seconds(getattr(tool, "timeout", None)) or timeout
        self.concurrency = settings.concurrency
        self.mode, self.invoke = _how_to_run(tool)
        self._has_artifact = getattr(tool, "response_format", None) == "content_and_artifact"

    def content(self, value: object) -> object:
        """What a model is to see of a returned value: of LangChain's (content, artifact) the content."""
        if self._has_artifact and isinstance(value, tuple) and len(value) == 2:
            return value[0]
        return value


def _how_to_run(tool: Any) -> tuple[Mode, Callable[[dict[str, Any]], Any]]:
    invoke, ainvoke = getattr(tool, "invoke", None), getattr(tool, "ainvoke", None)
    if isinstance(tool, FunctionTool) and tool.isolated:
        return Mode.ISOLATED, tool.invoke
    if invoke is not None and getattr(tool, "inline", False) is True:
        return Mode.INLINE, invoke
    if ainvoke is not None and callable(getattr(tool, "submit", None)):
        return Mode.REMOTE, ainvoke
    if ainvoke is not None and (invoke is None or not _is_sync_langchain(tool)):
        return Mode.LOOP, ainvoke
    assert invoke is not None  # as_tool() takes nothing without invoke or ainvoke
    if isinstance(tool, FunctionTool) and never_suspends(tool.function):
        return Mode.INLINE, invoke
    if getattr(tool, "is_async", False) is True or inspect.iscoroutinefunction(invoke):
        return Mode.LOOP, invoke
    return Mode.THREAD, invoke


def never_suspends(function: object) -> bool:
    """Whether a function is a coroutine function in which nothing is awaited: it ends in its first step."""
    if not isinstance(function, FunctionType) or not function.__code__.co_flags & inspect.CO_COROUTINE:
        return False
    return not any(it.opname in ("GET_AWAITABLE", "GET_ANEXT", "SEND") for it in dis.get_instructions(function))


def _is_sync_langchain(tool: Any) -> bool:
    """Whether a LangChain tool has only a blocking body.

    Its `ainvoke` would then run that body in asyncio's default thread pool, which nobody can abandon: asyncio waits for
    it when the loop ends. In a thread of ours it can be.
    """
    if not hasattr(tool, "_run") or not hasattr(tool, "_arun"):
        return False
    if hasattr(tool, "coroutine"):
        return tool.coroutine is None
    owner = next(cls for cls in type(tool).__mro__ if "_arun" in vars(cls))
    return owner.__module__.startswith("langchain_core.")


def _seconds(value: object) -> float | None:
    """A tool's own timeout, if that is what the attribute is: foreign objects may mean something else by it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None
