"""One timer for the deadlines of all running calls of an event loop.

A timer of its own for each call costs more than the rest of the call, and almost none of them ever fires. Here a call
writes its deadline into a dict and takes it out again; the one timer runs to the earliest deadline that was known when
it was set, looks who is due, and is set anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

Expire = Callable[[], object]


class Deadlines:
    """Calls back whoever is still there when its time has come. Times are those of `time.perf_counter`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[object, tuple[float, Expire]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")

    def add(self, key: object, deadline: float, expire: Expire) -> None:
        self._waiting[key] = (deadline, expire)
        if deadline < self._due:
            self._set(deadline)

    def remove(self, key: object) -> None:
        self._waiting.pop(key, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(max(0.0, due - perf_counter()), self._fire)

    def _fire(self) -> None:
        self._timer, self._due = None, float("inf")
        now = perf_counter()
        for key, (deadline, expire) in list(self._waiting.items()):
            if deadline <= now:
                del self._waiting[key]
                expire()
        if self._waiting:
            self._set(min(deadline for deadline, _ in self._waiting.values()))
