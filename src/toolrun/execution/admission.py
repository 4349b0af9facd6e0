"""Concurrency limits: how many calls run, in all and of one tool, and how many may wait. Belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolrun.config.model import Limits, ToolSettings
from toolrun.errors import CallError, CallTimeoutError, InvalidArgumentsError, OverloadedError, SideEffects, UsageError
from toolrun.text import show
from toolrun.tools.context import Call
from toolrun.tools.protocol import is_seconds


class Slot:
    """What a running call holds: a shared slot, unless a tool made the call, and one of its tool if that is limited."""

    __slots__ = ("_is_shared", "_limiter", "_tool", "call")

    def __init__(self, limiter: Limiter, is_shared: bool, tool: str | None, call: Call | None = None) -> None:
        self._limiter = limiter
        self._is_shared = is_shared
        self._tool = tool
        self.call = call

    def release_shared(self) -> None:
        """The caller has its answer."""
        if self._is_shared:
            self._limiter.running -= 1
            if self._limiter.waiting:
                self._limiter.admit()

    def release_tool(self) -> None:
        """The body has ended, which may be long after the answer.

        A tool that may run once at a time must not run twice because its first call was given up.
        """
        if self._tool is not None:
            self._limiter.of_tool[self._tool] -= 1
            self._limiter.holders[self._tool].remove(self)
            self._limiter.admit()


@dataclass(slots=True, eq=False)
class _Waiter:
    tool: str
    concurrency: int | None
    is_shared: bool
    call: Call | None
    slot: asyncio.Future[Slot]


class Limiter:
    """Hands out slots. A call that a tool made needs no shared slot: it could wait for the one its caller holds."""

    def __init__(self, max_concurrency: int, max_queue: int) -> None:
        self.max_concurrency = max_concurrency
        self._max_queue = max_queue
        self.waiting: deque[_Waiter] = deque()
        self._shared, self._unshared = Slot(self, True, None), Slot(self, False, None)
        """The slots of tools without a limit: nothing tells one from another."""
        self.of_tool: Counter[str] = Counter()
        self.holders: defaultdict[str, list[Slot]] = defaultdict(list)
        self.running = 0

    @property
    def queued(self) -> int:
        return len(self.waiting)

    def acquire_nowait(self, is_shared: bool) -> Slot:
        """A slot for a tool without a limit, when a shared one is known to be free."""
        if is_shared:
            self.running += 1
            return self._shared
        return self._unshared

    async def acquire(
        self, tool: str, concurrency: int | None, is_shared: bool, timeout: float, call: Call | None = None
    ) -> Slot:
        """A slot, now or within `timeout` seconds. Raises OverloadedError, or CallTimeoutError.

        Nobody is overtaken: a slot that becomes free goes at once to the first who can use it, so one that is free
        here is of no use to those who wait.
        """
        slot = self._try_acquire(tool, concurrency, is_shared, call)
        if slot is not None:
            return slot
        loop = asyncio.get_running_loop()
        assert not self.waiting or self.waiting[0].slot.get_loop() is loop, "a limiter belongs to one event loop"
        waiter = _Waiter(tool, concurrency, is_shared, call, loop.create_future())
        if self._waits_for_itself(waiter):
            raise OverloadedError(
                f"Tool '{tool}' would wait for itself: the calls that hold its {concurrency} slot(s) wait, directly or "
                "through other tools, for this one. Do not let it call itself, or raise its 'concurrency'."
            )
        if len(self.waiting) >= self._max_queue:
            raise OverloadedError(
                f"Too many calls: {self.running} are running and {self.queued} are waiting. Try again later."
            )
        self.waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.slot
        except BaseException as error:
            is_done = waiter.slot.done() and not waiter.slot.cancelled()
            if is_done and waiter.slot.exception() is None:  # it was handed out at the same moment
                waiter.slot.result().release_shared()
                waiter.slot.result().release_tool()
            elif waiter in self.waiting:
                self.waiting.remove(waiter)
            if isinstance(error, TimeoutError):
                raise CallTimeoutError(
                    f"Tool '{tool}' did not get its turn before the deadline: too many calls are running.",
                    side_effects=SideEffects.NOT_STARTED,
                ) from None
            raise

    def stop(self, call: Call, reason: CallError) -> bool:
        """Let a call that waits wait no longer. False if it does not wait."""
        waiter = next((it for it in self.waiting if it.call is call and not it.slot.done()), None)
        if waiter is None:
            return False
        self.waiting.remove(waiter)
        reason.side_effects = SideEffects.NOT_STARTED
        waiter.slot.set_exception(reason)
        return True

    def _waits_for_itself(self, newcomer: _Waiter) -> bool:
        """Whether no slot that a call made by a tool needs can become free: whoever holds one waits for such a call.

        All who wait for a tool's slot are stuck, except those for whom one holder can end: it is the caller of none
        that is stuck. So they are struck off until nothing changes.
        """
        if newcomer.call is None or newcomer.call.parent is None:
            return False
        stuck = [it for it in (*self.waiting, newcomer) if it.concurrency is not None]
        while newcomer in stuck:
            callers = {id(caller) for it in stuck for caller in _callers(it.call)}
            still = [it for it in stuck if all(id(slot.call) in callers for slot in self.holders[it.tool])]
            if len(still) == len(stuck):
                return True
            stuck = still
        return False

    def _try_acquire(
        self, tool: str, concurrency: int | None, is_shared: bool, call: Call | None = None
    ) -> Slot | None:
        if is_shared and self.running >= self.max_concurrency:
            return None
        if concurrency is None:
            return self.acquire_nowait(is_shared)
        if self.of_tool[tool] >= concurrency:
            return None
        slot = Slot(self, is_shared, tool, call)
        self.of_tool[tool] += 1
        self.holders[tool].append(slot)
        self.running += is_shared
        return slot

    def admit(self) -> None:
        """Give free slots to those who wait, first come, first served."""
        for waiter in list(self.waiting):
            if waiter.slot.done():
                continue
            slot = self._try_acquire(waiter.tool, waiter.concurrency, waiter.is_shared, waiter.call)
            if slot is not None:
                self.waiting.remove(waiter)
                waiter.slot.set_result(slot)


def _callers(call: Call | None) -> Iterator[Call]:
    while call is not None and call.parent is not None:
        call = call.parent
        yield call


def checked_timeout(timeout: float) -> float:
    """Raises InvalidArgumentsError for what cannot be the timeout of a call."""
    if not is_seconds(timeout):
        raise InvalidArgumentsError(f"Invalid call: timeout must be a number of seconds > 0; got {show(timeout)}")
    return timeout


def own_timeout(call: Call, timeout: float) -> float:
    """The timeout that a caller has set for this call. Raises InvalidArgumentsError."""
    call.has_own_deadline = True
    return checked_timeout(timeout)


def check_limits(timeout: object, limits: Limits, settings: Mapping[str, ToolSettings]) -> None:
    """Raises UsageError for a number of seconds that a configuration file could not hold."""
    seconds = {"timeout": timeout, "limits.slow_call": limits.slow_call}
    seconds |= {f"settings['{name}'].timeout": it.timeout for name, it in settings.items() if it.timeout is not None}
    for name, value in seconds.items():
        if not is_seconds(value):
            raise UsageError(f"{name} must be a number of seconds > 0; got {show(value)}")
