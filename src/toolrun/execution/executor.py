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
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from toolrun.config.model import Limits, ToolSettings
from toolrun.errors import OverloadedError, UsageError
from toolrun.execution.admission import check_limits, checked_timeout, own_timeout
from toolrun.execution.answer import answer, cancelled, failed
from toolrun.execution.approval import Approver, HookApprover, OnApproval, pass_gate
from toolrun.execution.argument_check import check
from toolrun.execution.blocking import LoopEndedError, keep_from_collection, run_blocking, sync_failure
from toolrun.execution.body import Outcome
from toolrun.execution.call_journal import PARENTS_KEY, CallJournal
from toolrun.execution.finalise import is_quick
from toolrun.execution.journal_stage import run_keyed, wait_for_room, wait_for_start
from toolrun.execution.log import LogObserver
from toolrun.execution.loop_state import LoopState
from toolrun.execution.observer import Observer, Observers
from toolrun.execution.pending import PendingTools, lacking_secret, unknown_tool
from toolrun.execution.prepared import MadeCoroutine, PreparedTool, Remainder, finalise_in_thread
from toolrun.execution.secrecy import hide_progress, redact
from toolrun.execution.thread import Threads
from toolrun.json import INT64
from toolrun.logger import get_logger, hold_secrets
from toolrun.processes.dumpable import forbid_dumps
from toolrun.result import ToolCall, ToolResult
from toolrun.text import shown_name
from toolrun.tools.context import Arguments, Call, CallKey, OnProgress, ToolContext, current_call, tool_logger
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import Tool
from toolrun.tools.trace import Tracer
from toolrun.worker.stream import is_stream

if TYPE_CHECKING:
    from toolrun.execution.health import Health

logger = get_logger("toolrun")

_NO_SETTINGS: Final = ToolSettings()
_MAX_DEPTH: Final = 32
"""Levels of tools that call tools; a circle of them ends here and not at Python's own limit."""
_GRACE: Final = 1.0
"""Seconds that `close` waits for cancelled tools to end."""


class ToolExecutor:
    """Executes tools by name."""

    model: Any = None
    """The model that tools may ask through their `ToolContext`."""
    pending_tools: PendingTools | None = None
    """Sources that are still connecting. A call of a tool that is not there waits for them."""
    missing_secrets: Mapping[str, str] = MappingProxyType({})
    """Why secrets that tools may be granted are not in `secrets`."""
    journal_problem: str | None = None
    """Why there is no recorder, though the program wants one."""
    ignores_keys = False
    """Whether keys mean nothing: recorded calls are played, and nothing acts."""
    tracer: Tracer | None = None
    """Traces the requests of clients, where calls are traced."""
    home: asyncio.AbstractEventLoop | None = None
    """The loop that all calls have to run on, if there is one: to which workers and servers belong."""

    def __init__(
        self,
        manager: ToolManager,
        timeout: float = 30.0,
        *,
        limits: Limits = Limits(),  # noqa: B008  frozen, so one for all is fine
        settings: Mapping[str, ToolSettings] | None = None,
        secrets: Mapping[str, str] | None = None,
        observers: Iterable[Observer] | None = None,
        recorder: CallJournal | None = None,
        on_approval: OnApproval | None = None,
    ) -> None:
        """`observers` replaces the log observer; pass `[LogObserver(), …]` to keep it.

        `on_approval` is asked before each call whether it may be made, and with which arguments.
        """
        check_limits(timeout, limits, settings or {})
        self.manager = manager
        self._by_name = manager.by_name
        self.timeout = timeout
        self.limits = limits
        self._settings, self._secrets = settings or {}, secrets or {}
        self._redactor = hold_secrets(self._secrets.values())
        """Hides the secrets, if there are any."""
        if self._secrets:
            forbid_dumps()
        if observers is None:
            observers = [LogObserver(slow_call=limits.slow_call, redactor=self._redactor)]
        self.observers = Observers(observers)
        self._on_started, self._on_finished = self.observers.on_started, self.observers.on_finished
        self.recorder = recorder
        """Remembers the calls, if the program wants that."""
        self.approver: Approver | None = HookApprover(on_approval)
        """Says which calls may be made; None: all of them, because nothing acts. To be set before the first call."""
        self._prepared: dict[str, PreparedTool] = {}
        self._max_chars = limits.max_result_chars
        self._threads = Threads()
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopState] = WeakKeyDictionary()
        self._state: LoopState | None = None
        """That of the loop which was used last."""
        self._process, self._has_forked = os.getpid(), False

    async def execute(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        call_id: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        key: str | CallKey | None = None,
    ) -> ToolResult:
        """Execute one call and return its answer. Raises nothing but the caller's own cancellation.

        `key` makes this call the same as any other with that key: it runs once, and a repeat gets its answer.
        """
        call = Call(self, name, {} if arguments is None else arguments, call_id)
        if on_progress is not None or key is not None:
            call.on_progress, call.given_key = on_progress, key if type(key) is str else None
        if self._on_started or self._redactor is not None:
            self._start(call)
        recorder, prepared, is_as_sent = self.recorder, None, True
        try:
            if recorder is not None and recorder.is_full():
                await wait_for_room(recorder, call, self.timeout)
            prepared = self._prepared.get(name) if type(name) is str else None
            if prepared is None or prepared.tool is not self._by_name.get(name):
                prepared = await self._find(name, timeout)
            call.deadline = call.started + (prepared.timeout if timeout is None else own_timeout(call, timeout))
            if not (is_as_sent := prepared.is_valid(call.arguments)):
                await check(prepared, call, self.limits.strict, self._enter_loop)
            if (parent := current_call.get()) is not None:
                key = self._nest(call, parent, key)
            if key is not None and not self.ignores_keys:
                value, error = await run_keyed(recorder, prepared, call, key, self._run)
            elif prepared.inline is not None and (recorder is None or prepared.is_harmless):
                value, error = copy_context().run(prepared.complete, prepared.inline, call)
            else:
                value, error = await self._run(prepared, call, recorder)
            if type(value) is not int and not is_quick(value, error):
                value, error = await self._finalise(prepared, call, value, error)
        except asyncio.CancelledError as left:
            self._finish(call, cancelled(call, left, self._max_chars), prepared)
            raise
        except Exception as refused:  # noqa: BLE001  every accepted call ends in an answer
            value, error = None, refused if type(name) is str else unknown_tool(name, self._by_name, self.pending_tools)
        if error is None and type(value) is int and -INT64 < value < INT64 and is_as_sent and call.edited is None:
            took = (perf_counter() - call.started) * 1000
            result = ToolResult(name, value, None, None, took, call.given_id or "", self._max_chars)
        else:
            result = answer(call, value, error, self._max_chars)
        return self._finish(call, result, prepared)

    async def execute_many(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Execute calls side by side; the answers are in the order of the calls. A batch never overloads itself.

        A batch whose calls have keys can be repeated: what is done is answered, and the rest is made.
        """
        results: list[ToolResult | None] = [None] * len(calls)
        todo = iter(enumerate(calls))

        async def work() -> None:
            for index, call in todo:
                results[index] = await self.execute(call.name, call.arguments, call_id=call.id, key=call.key)

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
        key: str | CallKey | None = None,
    ) -> ToolResult:
        """`execute` for programs without an event loop, and for threads beside one. Raises nothing but Ctrl-C."""
        self._notice_fork()
        options: Any = {"call_id": call_id, "timeout": timeout, "on_progress": on_progress, "key": key}
        call = partial(self.execute, name, arguments, **options)
        parent = current_call.get()
        home = self.home or (parent.loop if parent is not None else None)  # a tool's calls stay where the tool is
        try:
            return run_blocking(call, home)
        except (LoopEndedError, UsageError) as error:
            refused = Call(self, name, {} if arguments is None else arguments, call_id)
            result = failed(refused, sync_failure(error, shown_name(name)), self._max_chars)
            return self._finish(refused, result)

    async def find(self, name: str) -> PreparedTool:
        """The tool of that name, ready to run; a call would find the same. Raises CallError."""
        return await self._find(name, None)

    def health(self) -> Health:
        from toolrun.execution.health import Health  # few programs ask

        states = list(self._states.values())
        return Health(
            running=sum(state.limiter.running for state in states),
            queued=sum(state.limiter.queued for state in states),
            abandoned=self._threads.abandoned_by_tool(),
            lingering=sum(1 for state in states for task in state.parked_tasks.live if task.outcome.done()),
            journal=self.journal_problem if self.recorder is None else self.recorder.problem,
            definitions=() if self.pending_tools is None else tuple(self.pending_tools.changed_definitions()),
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

    def loop_state(self) -> LoopState:
        """What is kept for the running loop."""
        state, loop = self._state, asyncio.get_running_loop()
        return state if state is not None and state.loop is loop else self._enter_loop(loop)

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
            logger=tool_logger(name),
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
            gate = None if self.approver is None else self.approver.gate_of(tool, settings)
            prepared = self._prepared[tool.name] = PreparedTool(
                tool, settings, self.timeout, self._max_chars, self._redactor, gate
            )
        return prepared

    def _settings_of(self, tool: Tool) -> ToolSettings:
        """Those of its name, unless its source knows better: the name of a server's tool depends on other servers."""
        own = getattr(tool, "settings", None)
        return own if isinstance(own, ToolSettings) else self._settings.get(tool.name, _NO_SETTINGS)

    def _nest(self, call: Call, parent: Call, key: str | CallKey | None) -> str | CallKey | None:
        """A call that a tool makes: it cannot last longer than the call that it is inside of. Returns its key."""
        call.parent = parent
        call.deadline = min(call.deadline, parent.deadline)
        call.depth = parent.depth + 1
        if call.depth > _MAX_DEPTH:
            raise OverloadedError(f"Tools call each other more than {_MAX_DEPTH} levels deep")
        return PARENTS_KEY if key is None and parent.key is not None and self.recorder is not None else key

    async def _run(
        self, prepared: PreparedTool | Remainder, call: Call, recorder: CallJournal | None = None
    ) -> Outcome:
        """Wait until the call may be made, then for a slot, then run a body that may suspend or block."""
        if prepared.gate is not None:
            await pass_gate(call, prepared, self.manager)
        call.loop = loop = asyncio.get_running_loop()
        state = self._state
        if state is None or state.loop is not loop:
            state = self._enter_loop(loop)
        limiter, is_shared = state.limiter, call.parent is None
        if prepared.concurrency is None and limiter.running < limiter.max_concurrency:
            slot = limiter.acquire_nowait(is_shared)
        else:
            slot = await limiter.acquire(prepared.name, prepared.concurrency, is_shared, call.remaining(), call)
        if recorder is not None:
            waiting = recorder.start(call, prepared)  # type: ignore[arg-type]  # a Remainder comes without a recorder
            if waiting is not None:
                await wait_for_start(waiting, recorder, call, slot, state.deadlines)
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
            body = value.start(call, state)
        slot.release_shared()
        slot.release_tool()
        return body  # it has ended already, without a suspension

    async def _finalise(
        self, prepared: PreparedTool, call: Call, value: object, error: BaseException | None
    ) -> Outcome:
        """Finalise in a thread what may take long, in what is left of the call's time."""
        while True:
            while error is None and (is_stream(value) or type(value) is MadeCoroutine):
                value, error = await self._run(Remainder(prepared.name, value), call)
            if is_quick(value, error):
                return value, error
            state = self._enter_loop(asyncio.get_running_loop())
            body = finalise_in_thread(prepared, call, state, (value, error))
            value, error = body if isinstance(body, tuple) else await state.wait(body, call)
            if type(value) is not MadeCoroutine:
                return value, error

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
        if self._redactor is not None and call.on_progress is not None:
            call.on_progress = hide_progress(call.on_progress, self._redactor)
        for started in self._on_started:
            try:
                started(call)
            except Exception:  # an observer's failure is not the call's
                logger.exception("an observer failed")

    def _finish(self, call: Call, result: ToolResult, prepared: PreparedTool | None = None) -> ToolResult:
        """Tell everybody of the answer, which is returned as others than the caller may see it."""
        if self._redactor is not None:
            result = redact(result, self._redactor)
        if self.recorder is not None and not call.is_replayed:
            self.recorder.finish(call, prepared, result)
        for finished in self._on_finished:
            try:
                finished(call, result)
            except Exception:  # as above
                logger.exception("an observer failed")
        return result
