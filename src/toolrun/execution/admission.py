"""Concurrency limits: how many calls run, in all and of one tool, and how many may wait. Belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass

from toolrun.errors import CallTimeoutError, OverloadedError, SideEffects


class Slot:
    """What a running call holds: a shared slot, unless a tool made the call, and one of its tool if that is limited."""

    __slots__ = ("_is_shared", "_limiter", "_tool")

    def __init__(self, limiter: Limiter, is_shared: bool, tool: str | None) -> None:
        self._limiter = limiter
        self._is_shared = is_shared
        self._tool = tool

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
            self._limiter.admit()


@dataclass(slots=True, eq=False)
class _Waiter:
    tool: str
    concurrency: int | None
    is_shared: bool
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

    async def acquire(self, tool: str, concurrency: int | None, is_shared: bool, timeout: float) -> Slot:
        """A slot, now or within `timeout` seconds. Raises OverloadedError, or CallTimeoutError.

        Nobody is overtaken: a slot that becomes free goes at once to the first who can use it, so one that is free
        here is of no use to those who wait.
        """
        slot = self._try_acquire(tool, concurrency, is_shared)
        if slot is not None:
            return slot
        if len(self.waiting) >= self._max_queue:
            raise OverloadedError(
                f"Too many calls: {self.running} are running and {self.queued} are waiting. Try again later."
            )
        waiter = _Waiter(tool, concurrency, is_shared, asyncio.get_running_loop().create_future())
        self.waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.slot
        except BaseException as error:
            if waiter.slot.done() and not waiter.slot.cancelled():  # it was handed out at the same moment
                waiter.slot.result().release_shared()
                waiter.slot.result().release_tool()
            else:
                self.waiting.remove(waiter)
            if isinstance(error, TimeoutError):
                raise CallTimeoutError(
                    f"Tool '{tool}' did not get its turn before the deadline: too many calls are running.",
                    side_effects=SideEffects.NOT_STARTED,
                ) from None
            raise

    def _try_acquire(self, tool: str, concurrency: int | None, is_shared: bool) -> Slot | None:
        if is_shared and self.running >= self.max_concurrency:
            return None
        if concurrency is None:
            return self.acquire_nowait(is_shared)
        if self.of_tool[tool] >= concurrency:
            return None
        self.of_tool[tool] += 1
        self.running += is_shared
        return Slot(self, is_shared, tool)

    def admit(self) -> None:
        """Give free slots to those who wait, first come, first served."""
        for waiter in list(self.waiting):
            if waiter.slot.done():
                continue
            slot = self._try_acquire(waiter.tool, waiter.concurrency, waiter.is_shared)
            if slot is not None:
                self.waiting.remove(waiter)
                waiter.slot.set_result(slot)
