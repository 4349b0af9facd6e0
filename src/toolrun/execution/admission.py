"""Concurrency limits: how many calls run, in all and of one tool, and how many may wait. Belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass

from toolrun.errors import CallTimeoutError, OverloadedError, SideEffects


class Place:
    """What a running call holds: one of the shared places, unless a tool made it, and one of its tool's own."""

    __slots__ = ("_counted", "_limiter", "_name")

    def __init__(self, limiter: Limiter, counted: bool, name: str | None) -> None:
        self._limiter = limiter
        self._counted = counted
        self._name = name

    def answered(self) -> None:
        """The caller has its answer: the shared place is free."""
        if self._counted:
            self._limiter.running -= 1
            if self._limiter.queued:
                self._limiter.admit()

    def ended(self) -> None:
        """The body has ended, which may be long after the answer: the tool's own place is free.

        A tool that may run once at a time must not run twice because its first call was given up.
        """
        if self._name is not None:
            self._limiter.of_tool[self._name] -= 1
            self._limiter.admit()


@dataclass(slots=True, eq=False)
class _Waiter:
    name: str
    concurrency: int | None
    counted: bool
    turn: asyncio.Future[Place]


class Limiter:
    """Gives out places. A call that is not `counted` (one that a tool made) needs no shared place."""

    def __init__(self, max_concurrency: int, max_queue: int) -> None:
        self.max_concurrency = max_concurrency
        self._max_queue = max_queue
        self._waiting: deque[_Waiter] = deque()
        self.of_tool: Counter[str] = Counter()
        self.running = 0

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def take(self, counted: bool) -> Place:
        """A place for a call of a tool without a limit of its own, when a shared one is known to be free."""
        if counted:
            self.running += 1
        return Place(self, counted, None)

    async def enter(self, name: str, concurrency: int | None, counted: bool, timeout: float) -> Place:
        """A place, now or within `timeout` seconds.

        Nobody is overtaken: a place that becomes free goes at once to the first who can use it, so one that is free
        here is of no use to those who wait.
        """
        place = self._try(name, concurrency, counted)
        if place is not None:
            return place
        if len(self._waiting) >= self._max_queue:
            raise OverloadedError(
                f"Too many calls: {self.running} are running and {self.queued} are waiting. Try again later."
            )
        waiter = _Waiter(name, concurrency, counted, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.turn
        except BaseException as error:
            if waiter.turn.done() and not waiter.turn.cancelled():  # its turn came in the same moment
                waiter.turn.result().answered()
                waiter.turn.result().ended()
            else:
                self._waiting.remove(waiter)
            if isinstance(error, TimeoutError):
                raise CallTimeoutError(
                    f"Tool '{name}' did not get its turn before the deadline: too many calls are running.",
                    side_effects=SideEffects.NOT_STARTED,
                ) from None
            raise

    def _try(self, name: str, concurrency: int | None, counted: bool) -> Place | None:
        if counted and self.running >= self.max_concurrency:
            return None
        if concurrency is None:
            return self.take(counted)
        if self.of_tool[name] >= concurrency:
            return None
        self.of_tool[name] += 1
        self.running += counted
        return Place(self, counted, name)

    def admit(self) -> None:
        """Give free places to those who wait, first come, first served."""
        for waiter in list(self._waiting):
            if not waiter.turn.done() and (place := self._try(waiter.name, waiter.concurrency, waiter.counted)):
                self._waiting.remove(waiter)
                waiter.turn.set_result(place)
