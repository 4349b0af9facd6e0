"""What the executor derives from a tool, once: its validator, its limits, and what starts its body.

Where a body runs is decided here and nowhere else:

    inline     on the caller's stack: a function that promises not to block, or a coroutine that cannot suspend
    task       on the event loop, in a task of its own: a coroutine
    thread     in a thread of ours: a blocking function
    remote     elsewhere, without any code of the tool's on this loop: the tool has `submit`
    isolated   in a process: a function that is declared so
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from contextvars import copy_context
from types import FunctionType
from typing import Any, TypeAlias

from toolrun.config.model import ToolSettings
from toolrun.errors import CallError, DefinitionError, OverloadedError
from toolrun.execution.body import Body, Outcome, RemoteTool
from toolrun.execution.loop_state import LoopState
from toolrun.execution.thread import Job
from toolrun.json import JSON
from toolrun.tools.context import Call, current_call
from toolrun.tools.function import FunctionTool
from toolrun.tools.protocol import Tool, schema_of

Invoke: TypeAlias = Callable[[dict[str, JSON]], object]
Run: TypeAlias = Callable[[Call, LoopState], "Outcome | Body"]
"""Starts the body of a call. Returns its outcome if it has ended already, otherwise the body that runs."""


class PreparedTool:
    """A tool, ready to run."""

    __slots__ = (
        "concurrency",
        "content_of",
        "inline",
        "is_valid",
        "name",
        "rename",
        "run",
        "schema",
        "timeout",
        "tool",
    )

    def __init__(self, tool: Tool, settings: ToolSettings, timeout: float) -> None:
        self.tool = tool
        self.name = tool.name
        from toolrun.schema import ArgumentSchema  # here, because importing toolrun should not load a validator

        try:
            self.schema = ArgumentSchema(schema_of(tool))
        except DefinitionError as error:
            raise DefinitionError(f"Tool '{tool.name}': {error}") from error
        self.rename = getattr(tool, "rename_arguments", None)
        """Of a tool whose parameters may be called by other names: gives them their own."""
        self.is_valid = self.schema.fast_validator(only_listed_names=self.rename is not None)
        self.timeout: float = settings.timeout or _seconds(getattr(tool, "timeout", None)) or timeout
        self.concurrency = settings.concurrency
        self.inline: Invoke | None = _inline(tool)
        """What runs the body on the caller's stack, if it may. It then needs no slot, no deadline and no loop."""
        self.run: Run = _runner(tool)
        has_artifact = getattr(tool, "response_format", None) == "content_and_artifact"
        self.content_of = _without_artifact if has_artifact else None
        """What a model is to see of a returned value, if that is not all of it."""


def _without_artifact(value: object) -> object:
    """Of LangChain's (content, artifact) the content."""
    return value[0] if isinstance(value, tuple) and len(value) == 2 else value


def _inline(tool: Any) -> Invoke | None:
    is_function = isinstance(tool, FunctionTool)
    if getattr(tool, "invoke", None) is None or (is_function and tool.isolated):
        return None
    if getattr(tool, "inline", False) is True or (is_function and never_suspends(tool.function)):
        invoke: Invoke = tool.invoke
        return invoke
    return None


def _runner(tool: Any) -> Run:
    invoke, ainvoke = getattr(tool, "invoke", None), getattr(tool, "ainvoke", None)
    if isinstance(tool, FunctionTool) and tool.isolated:
        return _in_isolation(tool)
    if ainvoke is not None and callable(getattr(tool, "submit", None)):
        return _elsewhere(tool)
    if ainvoke is not None and (invoke is None or not _is_sync_langchain(tool)):
        return _in_task(ainvoke)
    assert invoke is not None  # adapt() lets nothing in without invoke or ainvoke
    if getattr(tool, "is_async", False) is True or inspect.iscoroutinefunction(invoke):
        return _in_task(invoke)
    return _in_thread(tool.name, invoke)


def _in_task(invoke: Invoke) -> Run:
    def run(call: Call, state: LoopState) -> Outcome | Body:
        return state.parked_tasks.start(invoke, call.arguments, call)

    return run


def _elsewhere(tool: RemoteTool) -> Run:
    ainvoke, submit = tool.ainvoke, tool.submit

    def run(call: Call, state: LoopState) -> Outcome | Body:
        try:
            body = submit(call)
        except CallError as error:
            return None, error
        return body if body is not None else state.parked_tasks.start(ainvoke, call.arguments, call)

    return run


def _in_isolation(tool: FunctionTool[..., Any]) -> Run:
    def run(call: Call, state: LoopState) -> Outcome | Body:
        isolated = state.isolated_tools()
        return state.parked_tasks.start(lambda arguments: isolated.invoke(tool, arguments), call.arguments, call)

    return run


def _in_thread(name: str, invoke: Invoke) -> Run:
    def run(call: Call, state: LoopState) -> Outcome | Body:
        threads = state.threads
        if threads.abandoned >= state.limits.max_abandoned:
            busy = ", ".join(f"{tool} ({count})" for tool, count in threads.abandoned_by_tool().items())
            return None, OverloadedError(
                f"Too many blocking tools are still running after their deadline: {busy}. Try again later."
            )
        context = copy_context()
        context.run(current_call.set, call)
        job = Job(name, invoke, call.arguments, context, state.loop.create_future())
        try:
            threads.start(job)
        except RuntimeError as error:  # the system gives no more threads
            return None, OverloadedError(f"No thread could be started for '{name}': {error}")
        return job

    return run


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
