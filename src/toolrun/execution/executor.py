"""The one pipeline that every tool call goes through: look up, check, wait for a place, run, normalise, observe.

Whatever the tool does, the caller gets exactly one `ToolResult`, at the latest at the deadline. Only the cancellation
of the caller itself is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from toolrun.config.model import Limits, ToolSettings
from toolrun.errors import (
    CallError,
    InvalidArgumentsError,
    OverloadedError,
    UnknownToolError,
)
from toolrun.execution.admission import Limiter
from toolrun.execution.blocking import run_blocking
from toolrun.execution.body import Body, Outcome
from toolrun.execution.deadline import DeadlineError, Deadlines
from toolrun.execution.failure import explain
from toolrun.execution.log import LogObserver
from toolrun.execution.observer import Observer
from toolrun.execution.parked_task import Carriers, complete
from toolrun.execution.prepared import Binding, Mode
from toolrun.execution.thread import Job, Threads
from toolrun.json import INT64, JSON
from toolrun.redaction import Redactor
from toolrun.result import ToolCall, ToolResult, blocks_of, normalise
from toolrun.text import close_names
from toolrun.tools.context import Arguments, Call, OnProgress, ToolContext, current_call
from toolrun.tools.manager import ToolManager

if TYPE_CHECKING:
    from toolrun.schema import Repair
    from toolrun.scripts.isolated import IsolatedTools

logger = logging.getLogger("toolrun")

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


class Latecomers(Protocol):
    """Servers that are still being connected with, or cannot be."""

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or none can be expected any more."""

    def missing(self) -> str:
        """Which of them are not there, for a model."""


class _Home:
    """What belongs to one event loop."""

    __slots__ = ("carriers", "deadlines", "isolated", "limiter", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self.loop = loop
        self.carriers = Carriers(loop)
        self.deadlines = Deadlines(loop)
        self.isolated: IsolatedTools | None = None
        self.limiter = Limiter(limits.max_concurrency, limits.max_queue)


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
        self.manager = manager
        self._by_name = manager.by_name
        self.timeout = timeout
        self.limits = limits
        self.model: Any = None
        """The model that tools may ask through their `ToolContext`."""
        self.latecomers: Latecomers | None = None
        """Who may still bring tools. A call of a tool that is not there waits for them."""
        self._settings = settings or {}
        self._secrets = secrets or {}
        if observers is None:
            observers = [LogObserver(slow_call=limits.slow_call, redactor=Redactor(self._secrets.values()))]
        watching = list(observers)
        self._on_started = [it.call_started for it in watching if type(it).call_started is not Observer.call_started]
        self._on_finished = [it.call_finished for it in watching]
        self._bindings: dict[str, Binding] = {}
        self._max_chars = limits.max_result_chars
        self._threads = Threads()
        self._homes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Home] = WeakKeyDictionary()
        self._home: _Home | None = None

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
        for notify in self._on_started:
            self._tell(notify, call)
        repairs: tuple[Repair, ...] = ()
        try:
            binding = self._bindings.get(name)
            if binding is None or binding.tool is not self._by_name.get(name):
                binding = await self._find(name, timeout or self.timeout)
            try:
                taken = binding.takes(call.arguments)
            except ValueError:  # not JSON
                taken = False
            if not taken:
                repairs = self._check(binding, call)
            call.deadline = call.started + (timeout or binding.timeout)
            if (parent := current_call.get()) is not None:
                self._nest(call, parent)
            if binding.mode is Mode.INLINE:
                value, error = copy_context().run(complete, binding.invoke, call)
            else:
                value, error = await self._run(binding, call)
        except asyncio.CancelledError as cancelled:
            result = self._failed(call, cancelled, repairs)
            for finished in self._on_finished:
                self._tell(finished, call, result)
            raise
        except Exception as refused:  # noqa: BLE001  every accepted call ends in an answer
            value, error = None, refused
        if error is not None:
            result = self._failed(call, error, repairs)
        elif type(value) is int and -INT64 < value < INT64:  # needs no second look, and a look would cost a call
            took = (perf_counter() - call.started) * 1000
            result = ToolResult(name, value, None, None, took, call_id or "", self._max_chars, repairs)
        else:
            result = self._succeeded(call, value if binding is None else binding.content(value), repairs)
        for finished in self._on_finished:
            try:
                finished(call, result)
            except Exception:  # an observer's failure is not the call's
                logger.exception("an observer failed")
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
        """`execute` for programs without an event loop, and for threads beside one."""
        coroutine = self.execute(name, arguments, call_id=call_id, timeout=timeout, on_progress=on_progress)
        return run_blocking(coroutine, self._home.loop if self._home is not None else None)

    def health(self) -> Health:
        homes = list(self._homes.values())
        return Health(
            running=sum(home.limiter.running for home in homes),
            queued=sum(home.limiter.queued for home in homes),
            abandoned=self._threads.abandoned_by_tool(),
            lingering=sum(1 for home in homes for carrier in home.carriers.live if carrier.outcome.done()),
        )

    async def close(self) -> None:
        """Cancel what runs on this loop, wait a moment for it to end, and let the threads go."""
        home = self._homes.pop(asyncio.get_running_loop(), None)
        self._home = None
        self._threads.close()
        self._threads = Threads()
        if home is not None:
            home.deadlines.close()
            if home.isolated is not None:
                await home.isolated.close()
            await home.carriers.close(_GRACE)

    def context(self, call: Call) -> ToolContext:
        """What the tool of a running call may know and use."""
        name = self._bind(call.name).name  # the call may have used another name of the tool
        settings = self._settings.get(name, _NO_SETTINGS)
        return ToolContext(
            call_id=call.id,
            tool_name=name,
            config=settings.config,
            secrets={name: self._secrets[name] for name in settings.secrets if name in self._secrets},
            manager=self.manager,
            model=self.model,
            logger=logging.getLogger(f"toolrun.tool.{name}"),
            call=call,
        )

    async def _find(self, name: str, timeout: float) -> Binding:
        """The tool of that name, which may still be on its way."""
        if self.latecomers is not None and self.manager.get(name) is None:
            parent = current_call.get()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout if parent is None else min(timeout, parent.remaining())):
                    await self.latecomers.wait_for(name)
        return self._bind(name)

    def _bind(self, name: str) -> Binding:
        tool = self.manager.get(name)
        if tool is None:
            names = [tool.name for tool in self.manager]
            close = close_names(str(name), names)
            hint = f"Did you mean {' or '.join(close)}?" if close else f"Known tools: {', '.join(names[:50]) or 'none'}"
            missing = self.latecomers.missing() if self.latecomers is not None else ""
            raise UnknownToolError(f"Tool '{name}' not found", detail=f"{hint}\n{missing}" if missing else hint)
        binding = self._bindings.get(tool.name)
        if binding is None or binding.tool is not tool:
            settings = self._settings.get(tool.name, _NO_SETTINGS)
            binding = self._bindings[tool.name] = Binding(tool, settings, self.timeout)
        return binding

    def _check(self, binding: Binding, call: Call) -> tuple[Repair, ...]:
        checked = binding.schema.check(call.arguments, strict=self.limits.strict, rename=binding.rename)
        if checked.renamed:
            logger.info("%s: %s → %s", call.name, _names(checked.renamed), _names(checked.renamed.values()))
        if checked.problems:
            from toolrun.schema import explain as explain_problems

            raise InvalidArgumentsError(
                explain_problems(checked.problems),
                detail=f"Parameters of {binding.name}:\n{binding.schema.describe()}",
            )
        if checked.dropped:
            logger.info("%s: dropped arguments that it does not take: %s", call.name, ", ".join(checked.dropped))
        call.arguments = checked.arguments
        return checked.repairs

    def _nest(self, call: Call, parent: Call) -> None:
        """A call that a tool makes: it cannot last longer than the call that it is inside of."""
        call.parent = parent
        call.deadline = min(call.deadline, parent.deadline)
        call.depth = parent.depth + 1
        if call.depth > _MAX_DEPTH:
            raise OverloadedError(f"Tools call each other more than {_MAX_DEPTH} levels deep")

    async def _run_isolated(self, tool: Any, arguments: dict[str, JSON]) -> JSON:
        from toolrun.scripts.isolated import IsolatedTools  # processes are loaded when they are needed

        loop = asyncio.get_running_loop()
        home = self._homes[loop]
        if home.isolated is None:
            home.isolated = IsolatedTools()
        return await home.isolated.invoke(tool, arguments)

    async def _run(self, binding: Binding, call: Call) -> Outcome:
        """Wait for a place, then run a body that may suspend or block."""
        call.loop = loop = asyncio.get_running_loop()
        home = self._home
        if home is None or home.loop is not loop:
            home = self._enter_loop(loop)
        limiter, counted = home.limiter, call.parent is None
        if binding.concurrency is None and limiter.running < limiter.max_concurrency:
            place = limiter.take(counted)
        else:
            place = await limiter.enter(binding.name, binding.concurrency, counted, call.remaining())
        running = self._start(binding, call, home)
        while not isinstance(running, tuple):
            running.on_end = place.ended
            home.deadlines.add(running, call)
            try:
                value, error = await running.outcome
                if isinstance(error, DeadlineError):
                    running.give_up()
            except asyncio.CancelledError:
                running.give_up()
                raise
            finally:
                home.deadlines.remove(running)
                place.answered()
            if error is not None or not isinstance(running, Job) or not inspect.isawaitable(value):
                return value, error
            # A plain function that made a coroutine: that runs on the loop, in what is left of the time.
            place = limiter.take(counted)
            running = home.carriers.begin(_identity, value, call)
        place.answered()
        place.ended()
        return running  # it has ended already, without a suspension

    def _start(self, binding: Binding, call: Call, home: _Home) -> Outcome | Body:
        invoke = binding.invoke
        if binding.mode is Mode.REMOTE:
            try:
                running: Body | None = binding.tool.submit(call)
            except CallError as error:
                return None, error
            if running is not None:
                return running
        elif binding.mode is Mode.THREAD:
            return self._start_thread(binding, call, home)
        elif binding.mode is Mode.ISOLATED:
            invoke = functools.partial(self._run_isolated, binding.tool)
        return home.carriers.begin(invoke, call.arguments, call)

    def _start_thread(self, binding: Binding, call: Call, home: _Home) -> Outcome | Job:
        threads = self._threads
        if threads.abandoned >= self.limits.max_abandoned:
            busy = ", ".join(f"{name} ({count})" for name, count in threads.abandoned_by_tool().items())
            return None, OverloadedError(
                f"Too many blocking tools are still running after their deadline: {busy}. Try again later."
            )
        context = copy_context()
        context.run(current_call.set, call)
        job = Job(binding.name, binding.invoke, call.arguments, context, home.loop.create_future())
        try:
            threads.start(job)
        except RuntimeError as error:  # the system gives no more threads
            return None, OverloadedError(f"No thread could be started for '{binding.name}': {error}")
        return job

    def _enter_loop(self, loop: asyncio.AbstractEventLoop) -> _Home:
        home = self._homes.get(loop)
        if home is None:
            home = self._homes[loop] = _Home(loop, self.limits)
        self._home = home
        return home

    def _succeeded(self, call: Call, value: object, repairs: tuple[Repair, ...]) -> ToolResult:
        plain, blocks = normalise(value), blocks_of(value)
        took = (perf_counter() - call.started) * 1000
        call_id = call.given_id or ""
        return ToolResult(call.name, plain, None, None, took, call_id, self._max_chars, repairs, content=blocks)

    def _failed(self, call: Call, error: BaseException, repairs: tuple[Repair, ...]) -> ToolResult:
        call.error = error
        failure = explain(error, call.name)
        milliseconds = (perf_counter() - call.started) * 1000
        return ToolResult(
            str(call.name),
            None,
            failure.message,
            failure.kind,
            milliseconds,
            call.given_id or "",
            self._max_chars,
            repairs,
            failure.side_effects,
            failure.detail,
        )

    def _tell(self, notify: Callable[..., None], *news: object) -> None:
        try:
            notify(*news)
        except Exception:  # an observer's failure is not the call's
            logger.exception("an observer failed")


def _identity(value: object) -> object:
    return value


def _names(names: Iterable[str]) -> str:
    """`{device_name: "...", level: "..."}`: which arguments, but not their values."""
    return "{" + ", ".join(f'{name}: "..."' for name in names) + "}"
