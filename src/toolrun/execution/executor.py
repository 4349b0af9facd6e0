"""The one pipeline that every tool call goes through: look up, check, wait for a slot, run, normalise, observe.

Whatever the tool does, the caller gets exactly one `ToolResult`, at the latest at the deadline. Only the cancellation
of the caller itself is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from toolrun.config.model import Limits, ToolSettings
from toolrun.errors import InvalidArgumentsError, OverloadedError, UsageError
from toolrun.execution.admission import check_limits, checked_timeout
from toolrun.execution.answer import failed, succeeded
from toolrun.execution.blocking import LoopEndedError, keep_from_collection, run_blocking, sync_failure
from toolrun.execution.body import Outcome
from toolrun.execution.judging import check_elsewhere
from toolrun.execution.log import LogObserver
from toolrun.execution.loop_state import LoopState
from toolrun.execution.observer import Observer
from toolrun.execution.parked_task import SelfCancelledError
from toolrun.execution.pending import PendingTools, lacking_secret, unknown_tool
from toolrun.execution.prepared import Collection, MadeCoroutine, PreparedTool, settle_in_thread
from toolrun.execution.settle import is_quick
from toolrun.execution.thread import Threads
from toolrun.json import INT64
from toolrun.logger import get_logger
from toolrun.redaction import Redactor
from toolrun.result import ToolCall, ToolResult
from toolrun.text import shown_name, visible
from toolrun.tools.context import Arguments, Call, OnProgress, ToolContext, current_call
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import Tool
from toolrun.worker.stream import is_stream

if TYPE_CHECKING:
    from toolrun.schema import Checked, Repair

logger = get_logger("toolrun")

_NO_SETTINGS: Final = ToolSettings()
_MAX_DEPTH: Final = 32
"""Levels of tools that call tools; a circle of them ends here and not at Python's own limit."""
_GRACE: Final = 1.0
"""Seconds that `close` waits for cancelled tools to end."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the executor is busy with."""

    running: int
    """Calls that are being executed."""
    queued: int
    """Calls that wait for a place."""
    abandoned: Mapping[str, int]
    """Threads, by tool, in which a call still runs that was answered at its deadline."""
    lingering: int
    """Async calls that were cancelled at their deadline and have not ended."""


class ToolExecutor:
    """Executes tools by name."""

    def __init__(
        self,
        manager: ToolManager,
        timeout: float = 30.0,
        *,
        limits: Limits = Limits(),  # noqa: B008  frozen, so one for all is fine
        settings: Mapping[str, ToolSettings] | None = None,
        secrets: Mapping[str, str] | None = None,
        observers: Iterable[Observer] | None = None,
    ) -> None:
        """`observers` replaces the log observer; pass `[LogObserver(), …]` to keep it."""
        check_limits(timeout, limits, settings or {})
        self.manager = manager
        self._by_name = manager.by_name
        self.timeout = timeout
        self.limits = limits
        self.model: Any = None
        """The model that tools may ask through their `ToolContext`."""
        self.pending_tools: PendingTools | None = None
        """Sources that are still connecting. A call of a tool that is not there waits for them."""
        self.missing_secrets: Mapping[str, str] = {}
        """Why secrets that tools may be granted are not in `secrets`."""
        self._settings = settings or {}
        self._secrets = secrets or {}
        if observers is None:
            observers = [LogObserver(slow_call=limits.slow_call, redactor=Redactor(self._secrets.values()))]
        observing = list(observers)
        self._on_started = [it.call_started for it in observing if type(it).call_started is not Observer.call_started]
        self._on_finished = [it.call_finished for it in observing]
        self._prepared: dict[str, PreparedTool] = {}
        self._max_chars = limits.max_result_chars
        self._threads = Threads()
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopState] = WeakKeyDictionary()
        self._state: LoopState | None = None
        """That of the loop which was used last."""
        self._process = os.getpid()
        self._has_forked = False
        self.home: asyncio.AbstractEventLoop | None = None
        """The loop that all calls have to run on, if there is one: to which workers and servers belong."""

    async def execute(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        call_id: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Execute one call and return its answer. Raises nothing but the caller's own cancellation."""
        call = Call(self, name, {} if arguments is None else arguments, call_id)
        call.on_progress = on_progress
        if self._on_started:
            self._start(call)
        repairs: tuple[Repair, ...] = ()
        try:
            prepared = self._prepared.get(name)
            if prepared is None or prepared.tool is not self._by_name.get(name):
                prepared = await self._find(name, timeout)
            call.deadline = call.started + (prepared.timeout if timeout is None else checked_timeout(timeout))
            try:
                is_valid = prepared.is_valid(call.arguments)
            except ValueError:  # not JSON
                is_valid = False
            if not is_valid:
                repairs = self._check(prepared, call, await check_elsewhere(prepared, call, self._enter_loop))
            if (parent := current_call.get()) is not None:
                self._nest(call, parent)
            if prepared.inline is not None:
                value, error = copy_context().run(prepared.complete, prepared.inline, call)
            else:
                value, error = await self._run(prepared, call)
            if type(value) is not int and not is_quick(value, error):
                value, error = await self._settle(prepared, call, value, error)
        except asyncio.CancelledError as cancelled:
            self._finish(call, failed(call, cancelled, repairs, self._max_chars))
            raise
        except Exception as refused:  # noqa: BLE001  every accepted call ends in an answer
            value, error = None, refused if type(name) is str else unknown_tool(name, self._by_name, self.pending_tools)
        if error is not None:
            result = failed(call, error, repairs, self._max_chars, value)
        elif type(value) is int and -INT64 < value < INT64 and not call.dropped:  # a second look would cost a call
            took = (perf_counter() - call.started) * 1000
            result = ToolResult(name, value, None, None, took, call_id or "", self._max_chars, repairs)
        else:
            result = succeeded(call, value, repairs, self._max_chars)
        self._finish(call, result)
        return result

    async def execute_many(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Execute calls side by side; the answers are in the order of the calls. A batch never overloads itself."""
        results: list[ToolResult | None] = [None] * len(calls)
        todo = iter(enumerate(calls))

        async def work() -> None:
            for index, call in todo:
                results[index] = await self.execute(call.name, call.arguments, call_id=call.id)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(calls), self.limits.max_concurrency)):
                group.create_task(work())
        return [result for result in results if result is not None]

    def execute_sync(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        call_id: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """`execute` for programs without an event loop, and for threads beside one. Raises nothing but Ctrl-C."""
        self._notice_fork()
        call = partial(self.execute, name, arguments, call_id=call_id, timeout=timeout, on_progress=on_progress)
        parent = current_call.get()
        home = self.home or (parent.loop if parent is not None else None)  # a tool's calls stay where the tool is
        try:
            return run_blocking(call, home)
        except (LoopEndedError, UsageError) as error:
            refused = Call(self, name, {} if arguments is None else arguments, call_id)
            result = failed(refused, sync_failure(error, shown_name(name)), (), self._max_chars)
            self._finish(refused, result)
            return result

    def health(self) -> Health:
        states = list(self._states.values())
        return Health(
            running=sum(state.limiter.running for state in states),
            queued=sum(state.limiter.queued for state in states),
            abandoned=self._threads.abandoned_by_tool(),
            lingering=sum(1 for state in states for task in state.parked_tasks.live if task.outcome.done()),
        )

    async def close(self) -> None:
        """Cancel what runs on this loop, wait a moment for it to end, and let the threads go."""
        closing = self._states.pop(asyncio.get_running_loop(), None)
        self._state = None
        self._threads.close()
        self._threads = Threads()
        for state in self._states.values():
            state.threads = self._threads
        if closing is not None:
            await closing.close(_GRACE)

    def context(self, call: Call) -> ToolContext:
        """What the tool of a running call may know and use."""
        tool = self._prepare(call.name).tool
        name, settings = tool.name, self._settings_of(tool)  # the call may have used another name of the tool
        return ToolContext(
            call_id=call.id,
            tool_name=name,
            config=settings.config,
            secrets={name: self._secrets[name] for name in settings.secrets if name in self._secrets},
            manager=self.manager,
            model=self.model,
            logger=get_logger(f"toolrun.tool.{name}"),
            call=call,
        )

    async def _find(self, name: str, timeout: float | None) -> PreparedTool:
        """The tool of that name, which may still be on its way."""
        if type(name) is not str:
            raise unknown_tool(name, self._by_name, self.pending_tools)
        timeout = self.timeout if timeout is None else checked_timeout(timeout)
        if self.pending_tools is not None and self.manager.get(name) is None:
            parent = current_call.get()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout if parent is None else min(timeout, parent.remaining())):
                    await self.pending_tools.wait_for(name)
        return self._prepare(name)

    def _prepare(self, name: str) -> PreparedTool:
        tool = self.manager.get(name)
        if tool is None:
            raise unknown_tool(name, self._by_name, self.pending_tools)
        prepared = self._prepared.get(tool.name)
        if prepared is None or prepared.tool is not tool:
            settings = self._settings_of(tool)
            for secret in settings.secrets:
                if secret not in self._secrets:
                    raise lacking_secret(tool.name, secret, self.missing_secrets.get(secret, "it has no value"))
            prepared = self._prepared[tool.name] = PreparedTool(tool, settings, self.timeout, self._max_chars)
        return prepared

    def _settings_of(self, tool: Tool) -> ToolSettings:
        """Those of its name, unless its source knows better: the name of a server's tool depends on other servers."""
        own = getattr(tool, "settings", None)
        return own if isinstance(own, ToolSettings) else self._settings.get(tool.name, _NO_SETTINGS)

    def _check(self, prepared: PreparedTool, call: Call, known: Checked | None = None) -> tuple[Repair, ...]:
        strict, names = self.limits.strict, (call.name, prepared.name)
        checked = known or prepared.schema.check(
            call.arguments, strict=strict, rename=prepared.rename, tool_names=names
        )
        call.dropped = checked.dropped
        if checked.renamed:
            logger.info("%s: %s → %s", call.name, _names(checked.renamed), _names(checked.renamed.values()))
        if checked.problems:
            from toolrun.schema.explain import explain as explain_problems

            raise InvalidArgumentsError(
                explain_problems(checked.problems),
                detail=f"Parameters of {prepared.name}:\n{prepared.schema.describe()}",
            )
        call.arguments = checked.arguments
        return checked.repairs

    def _nest(self, call: Call, parent: Call) -> None:
        """A call that a tool makes: it cannot last longer than the call that it is inside of."""
        call.parent = parent
        call.deadline = min(call.deadline, parent.deadline)
        call.depth = parent.depth + 1
        if call.depth > _MAX_DEPTH:
            raise OverloadedError(f"Tools call each other more than {_MAX_DEPTH} levels deep")

    async def _run(self, prepared: PreparedTool | Collection, call: Call) -> Outcome:
        """Wait for a slot, then run a body that may suspend or block."""
        call.loop = loop = asyncio.get_running_loop()
        state = self._state
        if state is None or state.loop is not loop:
            state = self._enter_loop(loop)
        limiter, is_shared = state.limiter, call.parent is None
        if prepared.concurrency is None and limiter.running < limiter.max_concurrency:
            slot = limiter.acquire_nowait(is_shared)
        else:
            slot = await limiter.acquire(prepared.name, prepared.concurrency, is_shared, call.remaining(), call)
        body = prepared.run(call, state)
        while not isinstance(body, tuple):
            if prepared.concurrency is not None:
                body.on_end = slot.release_tool
            try:
                value, error = await state.wait(body, call)
            finally:
                slot.release_shared()
            if type(value) is not MadeCoroutine:
                return value, error
            # A plain function that made a coroutine: that runs on the loop, in what is left of the time.
            slot = limiter.acquire_nowait(is_shared)
            body = state.parked_tasks.start(_identity, value.awaitable, call)
        slot.release_shared()
        slot.release_tool()
        return body  # it has ended already, without a suspension

    async def _settle(self, prepared: PreparedTool, call: Call, value: object, error: BaseException | None) -> Outcome:
        """Settle in a thread what may take long, in what is left of the call's time."""
        if type(error) is SelfCancelledError:
            value, error = await error.undo()
        if error is None and is_stream(value):
            value, error = await self._run(Collection(prepared.name, value), call)
        if is_quick(value, error):
            return value, error
        state = self._enter_loop(asyncio.get_running_loop())
        body = settle_in_thread(prepared, call, state, (value, error))
        return body if isinstance(body, tuple) else await state.wait(body, call)

    def _enter_loop(self, loop: asyncio.AbstractEventLoop) -> LoopState:
        self._notice_fork()
        state = self._states.get(loop)
        if state is None:
            state = self._states[loop] = LoopState(loop, self.limits, self._threads, self._has_forked)
        self._state = state
        return state

    def _notice_fork(self) -> None:
        """In a child that was forked: leave everything to the parent that belongs to its loops and threads."""
        if (process := os.getpid()) != self._process:
            keep_from_collection(self._states, self._state, self._threads, self.home)
            self._process, self._has_forked = process, True
            self._states, self._state, self._threads, self.home = WeakKeyDictionary(), None, Threads(), None

    def _start(self, call: Call) -> None:
        for started in self._on_started:
            try:
                started(call)
            except Exception:  # an observer's failure is not the call's
                logger.exception("an observer failed")

    def _finish(self, call: Call, result: ToolResult) -> None:
        for finished in self._on_finished:
            try:
                finished(call, result)
            except Exception:  # as above
                logger.exception("an observer failed")


def _identity(value: object) -> object:
    return value


def _names(names: Iterable[str]) -> str:
    """`{device_name: "...", level: "..."}`: which arguments, but not their values."""
    return "{" + ", ".join(f'{visible(name)}: "..."' for name in names) + "}"
