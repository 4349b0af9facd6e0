"""What the executor derives from a tool, once: its validator, its limits, and what starts its body.

Where a body runs is decided here and nowhere else:

    inline     on the caller's stack: a function that promises not to block, or a coroutine that cannot suspend
    task       on the event loop, in a task of its own: a coroutine
    thread     in a thread of ours: a blocking function
    remote     elsewhere, without any code of the tool's on this loop: the tool has `submit`
    isolated   in a process: a function that is declared so

`run` starts a body of any of these ways but the first. What is inline needs no slot, no deadline and no loop, so the
executor asks for it (`inline`) before it gets any of them. One thing cannot be known before a call: whether a
function returns a coroutine, which then is awaited on the loop (`MadeCoroutine`).
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias, cast

from toolrun.config.model import ToolSettings
from toolrun.errors import CallError, DefinitionError, OverloadedError, SideEffects, UnavailableError
from toolrun.execution.body import Body, Outcome, RemoteTool
from toolrun.execution.finalise import finalise, is_quick
from toolrun.execution.loop_state import LoopState
from toolrun.execution.parked_task import ParkedTasks, complete
from toolrun.execution.thread import Job
from toolrun.json import JSON
from toolrun.redaction import Redactor
from toolrun.tools.context import Call, current_call
from toolrun.tools.effects import HARMLESS, Effects, declared_effects, read_effects
from toolrun.tools.function import FunctionTool
from toolrun.tools.key_argument import KeyArgument, hide_key_argument
from toolrun.tools.langchain_tool import (
    is_langchain,
    is_single_input,
    langchain_invoker,
    read_answer,
    rename_single,
    split_pair,
)
from toolrun.tools.protocol import Tool, is_seconds, origin_of, schema_of
from toolrun.worker.stream import collect_async, collect_blocking, is_async

Invoke: TypeAlias = Callable[[dict[str, JSON]], object]
Run: TypeAlias = Callable[[Call, LoopState], "Outcome | Body"]
"""Starts the body of a call. Returns its outcome if it has ended already, otherwise the body that runs."""
Gate: TypeAlias = Callable[[Call, "PreparedTool"], Awaitable[None]]
"""Returns when the call may be made, with the arguments that it has then. Raises CallError."""
Finalise: TypeAlias = Callable[[object, BaseException | None], Outcome]


class Remainder:
    """What a body left to be done, which gets a body of its own: to collect a stream, or to await what it returned."""

    concurrency: Final = None
    gate: Final = None

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self._value = value

    def run(self, call: Call, state: LoopState) -> Outcome | Body:
        value = self._value
        if isinstance(value, MadeCoroutine):
            return value.start(call, state)
        if is_async(value):
            return state.parked_tasks.start(collect_async, value, call)
        return start_thread(self.name, lambda _: collect_blocking(value), call, state)  # its `next` may block


class PreparedTool:
    """A tool, ready to run."""

    __slots__ = (
        "complete",
        "concurrency",
        "effects",
        "finalise",
        "gate",
        "inline",
        "is_harmless",
        "is_valid",
        "name",
        "recorded",
        "redactor",
        "rename",
        "run",
        "schema",
        "settings",
        "timeout",
        "tool",
    )

    def __init__(
        self,
        tool: Tool,
        settings: ToolSettings,
        timeout: float,
        max_chars: int | None = None,
        redactor: Redactor | None = None,
        gate: Gate | None = None,
    ) -> None:
        if settings.key_argument:
            hide_key_argument(tool, settings.key_argument)
        self.tool = tool
        self.settings = settings
        self.name = tool.name
        from toolrun.schema import ArgumentSchema  # here, because importing toolrun should not load a validator

        try:
            self.schema = ArgumentSchema(schema_of(tool), origin_of(tool))
        except DefinitionError as error:
            raise DefinitionError(f"Tool '{tool.name}': {error}") from error
        self.rename = rename_single if is_single_input(tool) else getattr(tool, "rename_arguments", None)
        """Of a tool whose parameters may be called by other names: gives them their own."""
        effort = self.schema.effort
        self.is_valid = self.schema.fast_validator(None if effort.is_flat else effort.is_short)
        """Whether arguments are valid and can be checked here; those that may take long are not."""
        own: Any = getattr(tool, "timeout", None)  # foreign objects may mean something else by it
        self.timeout: float = settings.timeout or (own if is_seconds(own) else timeout)
        self.concurrency = settings.concurrency
        key_argument = getattr(tool, "key_argument", None)
        has_key_argument = isinstance(key_argument, KeyArgument)
        self.gate, self.redactor = gate, redactor
        """Where a call waits until it may be made, and what hides secrets from whoever is asked there."""
        self.inline: Invoke | None = None if has_key_argument or gate is not None else _inline(tool)
        """What runs the body on the caller's stack, if it may. It then needs no slot, no deadline and no loop."""
        is_closed = isinstance(tool, FunctionTool) and reaches_nothing(tool.function)
        self.complete = complete if is_closed else _complete_in_parked_task
        """Runs what is inline."""
        if not (effort.is_flat if isinstance(tool, FunctionTool) else _is_ours(tool)):
            self.complete = partial(_complete_on_record, self, self.complete)
        self.effects = effects_of(tool, settings)
        """What a second call would do; None if nobody says so."""
        self.is_harmless = self.effects in HARMLESS
        self.recorded: object = None
        """What a recorder has found out about the tool."""
        self.finalise: Finalise = partial(_finalise, self.name, max_chars, redactor)
        """What is made of an outcome in a thread."""
        self.run: Run = _runner(tool, self.finalise)
        if isinstance(key_argument, KeyArgument):
            self.run = _filling(self.run, key_argument)
            self.rename = partial(key_argument.leave_out, self.rename)


def effects_of(tool: Tool, settings: ToolSettings) -> Effects | None:
    """What a second call would do, by the project, the tool itself, or because its function reaches nothing at all."""
    has_key = isinstance(getattr(tool, "key_argument", None), KeyArgument)
    said = read_effects(settings.effects or None) or (Effects.KEYED if has_key else declared_effects(tool))
    is_closed = isinstance(tool, FunctionTool) and reaches_nothing(tool.function)
    return Effects.NONE if said is None and is_closed else said


class MadeCoroutine:
    """What a function returned that has to be awaited on the loop."""

    __slots__ = ("_awaitable",)

    def __init__(self, awaitable: object) -> None:
        self._awaitable = awaitable

    def start(self, call: Call, state: LoopState) -> Outcome | Body:
        return state.parked_tasks.start(lambda awaitable: awaitable, self._awaitable, call)


def _finalise(
    name: str, max_chars: int | None, redactor: Redactor | None, value: object, error: BaseException | None
) -> Outcome:
    if is_quick(value, error):
        return value, error  # on the loop it takes less time than here, where it waits for the loop to let go
    try:
        if error is None and inspect.isawaitable(value):
            return MadeCoroutine(value), None
    except BaseException:  # noqa: BLE001  it asks a foreign object what it is
        pass
    return finalise(value, error, name, max_chars, redactor)


def finalise_in_thread(prepared: PreparedTool, call: Call, state: LoopState, outcome: Outcome) -> Outcome | Body:
    """Finalise what a body returned or raised on the loop."""
    body = start_thread(prepared.name, lambda _: _again(outcome), call, state, lambda *_: prepared.finalise(*outcome))
    if isinstance(body, tuple) and isinstance(body[1], OverloadedError):
        body[1].side_effects = SideEffects.UNKNOWN  # the tool has run
    return body


def _again(outcome: Outcome) -> object:
    """What the body returned or raised: that is how it ended, also if nobody waits for it to be finalised."""
    value, error = outcome
    if error is not None:
        raise error
    return value


def _inline(tool: Tool) -> Invoke | None:
    function = tool if isinstance(tool, FunctionTool) else None
    invoke: Invoke | None = getattr(tool, "invoke", None)
    if function is not None and function.isolated:
        return None
    is_inline = getattr(tool, "inline", False) is True or (function is not None and never_suspends(function.function))
    return invoke if is_inline else None


def _runner(tool: Tool, finalise: Finalise) -> Run:
    invoke, ainvoke = getattr(tool, "invoke", None), getattr(tool, "ainvoke", None)
    if isinstance(tool, FunctionTool) and tool.isolated:
        return _in_isolation(tool)
    if ainvoke is not None and callable(getattr(tool, "submit", None)):
        return _elsewhere(cast(RemoteTool, tool))
    is_blocking = ainvoke is None or (invoke is not None and _is_sync_langchain(tool))
    if is_langchain(tool):
        invoke, ainvoke = langchain_invoker(tool)
    elif not _is_ours(tool):
        invoke, ainvoke = _reading(tool, invoke), _reading(tool, ainvoke)
    if not is_blocking:
        assert ainvoke is not None
        return _in_task(ainvoke)
    assert invoke is not None  # adapt() lets nothing in without invoke or ainvoke
    if getattr(tool, "is_async", False) is True or inspect.iscoroutinefunction(invoke):
        return _in_task(invoke)
    return _in_thread(tool.name, lambda arguments: collect_blocking(invoke(arguments)), finalise)


def _complete_in_parked_task(invoke: Invoke, call: Call) -> Outcome:
    """Under the identity of a task of its own: a tool that asks for the current task does not get its caller's."""
    host: Any = call.host
    parked_tasks: ParkedTasks = host.loop_state().parked_tasks
    return parked_tasks.complete(invoke, call)


def _complete_on_record(
    prepared: PreparedTool, complete: Callable[[Invoke, Call], Outcome], invoke: Invoke, call: Call
) -> Outcome:
    """Runs a body that gets what it could change: a list, an object. What is on record is what it was called with."""
    recorder: Any = getattr(call.host, "recorder", None)
    if recorder is not None:
        recorder.start(call, prepared)
    return complete(invoke, call)


def _is_ours(tool: object) -> bool:
    return type(tool).__module__.partition(".")[0] == "toolrun"


def _reading(tool: Tool, invoke: Invoke | None) -> Invoke | None:
    """The way to call a foreign object, with its answers read as those of a LangChain tool."""
    if invoke is None:
        return None
    read = split_pair if getattr(tool, "response_format", None) == "content_and_artifact" else read_answer
    if inspect.iscoroutinefunction(invoke):

        async def ainvoke(arguments: dict[str, JSON]) -> object:
            return read(await invoke(arguments))

        return ainvoke
    return lambda arguments: _read_now_or_later(read, invoke(arguments))


def _read_now_or_later(read: Callable[[object], object], value: object) -> object:
    """An answer, also one that is still to be awaited."""
    if not inspect.isawaitable(value):
        return read(value)

    async def read_later() -> object:
        return read(await value)

    return read_later()


def _filling(run: Run, argument: KeyArgument) -> Run:
    """After the check of the arguments: the key is none that a caller has sent."""

    def run_filled(call: Call, state: LoopState) -> Outcome | Body:
        call.arguments = argument.fill(call.arguments, call.idempotency_key)
        return run(call, state)

    return run_filled


def _in_task(invoke: Invoke) -> Run:
    def run(call: Call, state: LoopState) -> Outcome | Body:
        return state.parked_tasks.start(invoke, call.arguments, call)

    return run


def _elsewhere(tool: RemoteTool) -> Run:
    ainvoke, submit = tool.ainvoke, tool.submit

    def run(call: Call, state: LoopState) -> Outcome | Body:
        if state.has_forked:
            return None, UnavailableError(
                f"'{tool.name}' belongs to the process that this one was forked from. Open a Runtime after the fork.",
                side_effects=SideEffects.NOT_STARTED,
            )
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


def _in_thread(name: str, invoke: Invoke, finalise: Finalise) -> Run:
    def run(call: Call, state: LoopState) -> Outcome | Body:
        return start_thread(name, invoke, call, state, finalise)

    return run


def start_thread(
    name: str, invoke: Invoke, call: Call, state: LoopState, finalise: Finalise | None = None
) -> Outcome | Body:
    """Run a part of a call in a thread of ours, unless too many of them are busy with calls that were given up."""
    threads = state.threads
    if threads.abandoned >= state.limits.max_abandoned:
        busy = ", ".join(f"{tool} ({count})" for tool, count in threads.abandoned_by_tool().items())
        return None, OverloadedError(
            f"Too many blocking tools are still running after their deadline: {busy}. Try again later."
        )
    context = copy_context()
    context.run(current_call.set, call)
    job = Job(name, invoke, call.arguments, context, state.loop.create_future(), finalise)
    try:
        threads.start(job)
    except RuntimeError as error:  # the system gives no more threads
        return None, OverloadedError(f"No thread could be started for '{name}': {error}")
    return job


def never_suspends(function: object) -> bool:
    """Whether a function is a coroutine function in which nothing is awaited: it ends in its first step."""
    if not isinstance(function, FunctionType) or not function.__code__.co_flags & inspect.CO_COROUTINE:
        return False
    return not any(it.opname in ("GET_AWAITABLE", "GET_ANEXT", "SEND") for it in dis.get_instructions(function))


def reaches_nothing(function: object) -> bool:
    """Whether a function works on its arguments alone: it names no global, no attribute and no other function.

    So it cannot get hold of the task that it runs in.
    """
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    return not code.co_names and not code.co_freevars and not any(isinstance(it, CodeType) for it in code.co_consts)


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
