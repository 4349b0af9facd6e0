"""What belongs to the call that is running: its record, and what a tool may ask of its host.

The running call travels in a context variable, so that it reaches the tool through any `invoke(arguments)`, also in a
thread. Knows nothing of how calls are run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import logging
import os
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from toolrun.errors import SideEffects, UnavailableError, UsageError
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.text import shown_name
from toolrun.tools.call_log import CallLog, LogLine, OnLog

if TYPE_CHECKING:
    from toolrun.result import ToolResult
    from toolrun.schema import Repair
    from toolrun.tools.manager import ToolManager
    from toolrun.tools.trace import Trace

T = TypeVar("T")
Arguments = Mapping[str, JSON] | str | bytes | None
"""Arguments as they come: an object, or JSON text of one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tool says it has got."""

    progress: float
    total: float | None = None
    message: str = ""

    def __str__(self) -> str:
        total = "" if self.total is None else f" of {_figure(self.total)}"
        return f"{_figure(self.progress)}{total}{f': {self.message}' if self.message else ''}"


def _figure(number: object) -> str:
    """A number in few digits. Tools give all sorts of things."""
    return f"{number:,.6g}" if isinstance(number, float) else str(number)


OnProgress = Callable[[Progress], None]
OnLateEnd = Callable[[object, BaseException | None], object]
"""Is told what a body returned or raised after its call was answered."""


class CallKey(NamedTuple):
    """What makes two calls the same, in the words of a caller that shares the executor with others."""

    key: str
    scope: str
    """Who says so. The same key of somebody else is another call."""
    is_told: bool = False
    """Whether the caller chose it as such, and finds it in the answer."""


class Recorded(Protocol):
    """What a recorder keeps of a call."""

    worker: str | None
    """The process that runs it, and what enforces its sandbox: `pid 123, namespaces`."""

    @property
    def idempotency_key(self) -> str:
        """Opaque, and of this call alone, whoever else writes to the same journal or to another."""


class Host(Protocol):
    """What executes calls, as seen from inside one."""

    async def execute(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        call_id: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        key: str | CallKey | None = None,
    ) -> ToolResult: ...

    def context(self, call: Call) -> ToolContext: ...


_POLL: Final = 0.1
"""Seconds between two looks at whether the loop of a call still runs."""
_IDS: Final = itertools.count(1)


class Call:
    """One call on its way through the executor."""

    deadline = float("inf")
    """On the clock of `time.perf_counter`."""
    has_own_deadline = False
    """Whether the caller has set it, and not the settings of the tool."""
    waiting = 0
    """How many requests for approval its body waits for: its own, or those of calls inside of it."""
    left = 0.0
    """Seconds until its deadline when it began to wait for the first of them."""
    error: BaseException | None = None
    """What the tool raised."""
    loop: asyncio.AbstractEventLoop | None = None
    """Where the call was made; None while its tool runs inline."""
    repairs: tuple[Repair, ...] = ()
    """What was changed in the arguments before the tool gets them."""
    dropped: tuple[str, ...] = ()
    """Names in the arguments that the tool does not know and does not get."""
    on_progress: OnProgress | None = None
    log: CallLog | None = None
    """What its tool has logged, if anything."""
    on_log: OnLog | None = None
    on_checked: Callable[[], object] | None = None
    """Called when the arguments are those that the tool gets, if they are not the ones that came."""
    parent: Call | None = None
    """The call whose tool made this one."""
    phase = ""
    """What the call is waiting for before its tool begins; empty once the tool may have acted."""
    depth = 0
    """How many calls this one is inside of."""
    given_key: str | None = None
    """The key in the words of a caller that does not share the executor with others."""
    key: bytes | None = None
    """What makes this call the same as another, if its caller says so: the hash of what was given."""
    fingerprint: bytes | None = None
    """Tells two calls with the same key apart."""
    is_replayed = False
    """Whether the answer is the stored one of the same call, which was made before."""
    replayed_from: int | None = None
    """The record of that call."""
    sent: object = None
    """The arguments as they came, if they were changed since."""
    record: Recorded | None = None
    """What the recorder keeps of a call whose body was started."""
    steps: dict[bytes, set[int]] | None = None
    """Of a call with a key whose tool calls tools: the numbers of equal calls among them, by fingerprint."""
    step = 0
    """The number of this call in the `steps` of its parent, if it has a key for that."""
    is_approved = False
    """Whether it has passed the gate of its tool."""
    approval: int | None = None
    """The stored answer by which the call may be made, if somebody was asked."""
    gone: asyncio.Future[None] | None = None
    """Of a call in a worker: done when its process has ended."""
    on_late_end: OnLateEnd | None = None
    """Called with the outcome of a body that ends after the call was answered, if somebody wants to know it."""
    trace: Trace | None = None
    """What continues the trace of this call in other programs, if it is traced."""

    def __init__(self, host: Host, name: str, arguments: Arguments, call_id: str | None) -> None:
        self.host = host
        self.name = name
        self.arguments: Any = arguments
        """As they came, which may be anything; once checked, the dict that the tool gets."""
        self.given_id = call_id if call_id is None or type(call_id) is str else shown_name(call_id)
        self.edited: JSON = None  # here, as every call is asked for it: to find it in the class takes longer
        """The arguments that the tool gets, if whoever approved the call has changed them."""
        self.started = perf_counter()

    @property
    def id(self) -> str:
        """The id that the caller gave, or one that is unique in this process."""
        if self.given_id is None:
            self.given_id = f"call-{next(_IDS)}"
        return self.given_id

    @property
    def idempotency_key(self) -> str:
        """What the destination of the call may know it by: the same for every attempt, and for no other call.

        Made when somebody asks for it, which may be several threads of a tool at once.
        """
        known: str | None = self.__dict__.get("_idempotency_key")
        if known is None:
            if self.key is not None:
                made = self.key.hex()
            else:
                made = os.urandom(16).hex() if self.record is None else self.record.idempotency_key
            known = self.__dict__.setdefault("_idempotency_key", made)
        return known

    def logged(self, level: str, text: str) -> None:
        """Its tool has logged a line. In any thread; never fails."""
        if self.log is None:
            self.log = CallLog()
        line = self.log.add(LogLine(self._after_us(), level, text))
        if self.on_log is None:
            return
        if self.loop is None:
            _tell(self.on_log, line)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self.loop.call_soon_threadsafe(_tell, self.on_log, line)

    def note(self, progress: Progress) -> None:
        """Keep a report of its tool. In any thread; never fails."""
        if self.log is None:
            self.log = CallLog()
        self.log.report(self._after_us(), str(progress))

    def progressed(self, progress: Progress) -> None:
        """Its tool has reported, to the loop of the call."""
        self.note(progress)
        if self.on_progress is not None:
            self.on_progress(progress)

    def _after_us(self) -> int:
        return int((perf_counter() - self.started) * 1_000_000)

    def remaining(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - perf_counter())


class _ForTheCall(logging.Filter):
    """Gives every record of a tool's logger to the call that runs there. The log shows what its level lets through."""

    def filter(self, record: logging.LogRecord) -> bool:
        call = current_call.get()
        if call is not None:
            below = "" if record.exc_text is None else f"\n{record.exc_text}"
            call.logged(record.levelname.lower(), f"{record.getMessage()}{below}")
        logger = get_logger(record.name)
        return logger.level != _ALL_FOR_THE_CALL or logger.parent is None or logger.parent.isEnabledFor(record.levelno)


_FOR_THE_CALL: Final = _ForTheCall()
_ALL_FOR_THE_CALL: Final = logging.INFO - 1
"""The level of the logger if the program has set none: info and what is more important goes to the call. No program
sets this one itself."""


def tool_logger(tool: str = "") -> logging.Logger:
    """What a tool logs with."""
    logger = get_logger(f"toolrun.tool.{tool}" if tool else "toolrun.tool")
    logger.addFilter(_FOR_THE_CALL)  # at most once, and behind the one that makes records clean
    if logger.level == logging.NOTSET:
        logger.setLevel(_ALL_FOR_THE_CALL)
    return logger


current_call: ContextVar[Call | None] = ContextVar("toolrun_call", default=None)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Given to a function that annotates a parameter with it. Its parts have defaults, so a test can make one."""

    call_id: str = ""
    tool_name: str = ""
    config: Mapping[str, JSON] = field(default_factory=dict)
    """The tool's own section of the configuration."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The secrets that the tool was granted."""
    manager: ToolManager = None  # type: ignore[assignment]  # a call has one, a context that a test makes need not
    """The `ToolManager` that holds all tools."""
    model: Any = None
    """The model of the host application, if it has one."""
    logger: logging.Logger = field(default_factory=tool_logger)
    call: Call | None = field(default=None, repr=False)
    origin: Context = field(default_factory=copy_context, repr=False, compare=False)
    """Where the tool got this context: says who makes its calls."""

    @property
    def idempotency_key(self) -> str:
        """32 hexadecimal digits for the destination of this call: the same for every attempt of a call with a key.

        Empty in a context that was made by hand.
        """
        return "" if self.call is None else self.call.idempotency_key

    def remaining(self) -> float:
        """Seconds until this call's deadline."""
        return float("inf") if self.call is None else self.call.remaining()

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the caller how far the tool has got. May be called from any thread; never fails."""
        call = self.call
        if call is None:
            return
        report = Progress(progress, total, message)
        call.note(report)
        if call.on_progress is None:
            return
        if call.loop is None:  # an inline tool: this is the caller's own thread
            _tell(call.on_progress, report)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            call.loop.call_soon_threadsafe(_tell, call.on_progress, report)

    async def call_tool(
        self, name: str, arguments: Arguments = None, *, timeout: float | None = None, key: str | None = None
    ) -> ToolResult:
        """Execute another tool. It ends at its own deadline or at this call's, whichever comes first.

        If this call has a key, the other call gets one made of it, so that it is not repeated when this one is.
        """
        if self.call is None:
            raise UsageError("this ToolContext belongs to no call, so it cannot call tools")
        return await self.call.host.execute(name, arguments, timeout=timeout, key=key)

    def call_tool_sync(
        self, name: str, arguments: Arguments = None, *, timeout: float | None = None, key: str | None = None
    ) -> ToolResult:
        """`call_tool` for functions that are not async."""
        if self.call is None:
            raise UsageError("this ToolContext belongs to no call, so it cannot call tools")
        loop, running = self.call.loop, None
        with contextlib.suppress(RuntimeError):
            running = asyncio.get_running_loop()
        if loop is None or running is loop:
            raise UsageError("call_tool_sync would block the event loop; use 'await context.call_tool(…)'")
        child = self._as_child(name, arguments, timeout, key)
        # In a thread that the tool has started, nothing says who makes its calls.
        context = copy_context() if current_call.get() is self.call else self.origin.copy()
        answer = context.run(asyncio.run_coroutine_threadsafe, child, loop)
        while True:  # nothing tells when another thread's loop ends
            try:
                return answer.result(_POLL)
            except concurrent.futures.CancelledError:
                break
            except concurrent.futures.TimeoutError:
                if answer.done():
                    return answer.result()
                if not loop.is_running():
                    break
        raise UnavailableError(f"The event loop that runs '{name}' has ended.", side_effects=SideEffects.UNKNOWN)

    async def _as_child(self, name: str, arguments: Arguments, timeout: float | None, key: str | None) -> ToolResult:
        current_call.set(self.call)  # a coroutine that comes from a thread starts in the loop's context
        return await self.call_tool(name, arguments, timeout=timeout, key=key)


def _tell(listener: Callable[[T], object], said: T) -> None:
    try:
        listener(said)
    except Exception:  # noqa: BLE001  the listener's own failure is not the call's
        get_logger("toolrun").warning("a progress listener failed", exc_info=True)


def running_context() -> ToolContext:
    """The context of the call that is running here."""
    call = current_call.get()
    if call is None:
        raise UsageError("this tool needs a ToolContext: run it through ToolExecutor.execute")
    return call.host.context(call)
