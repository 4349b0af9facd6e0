"""Wakes the writer's thread. `threading.Event` would do, but it is written in Python, and callers that wait for a start
row wait for it, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Wakeup:
    """A lock as an event for one thread. It may wake once too often, so the thread must look for itself."""

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def set(self) -> None:
        try:
            self._asleep.release()
        except RuntimeError:  # somebody else has just done so
            return

    def wait(self, timeout: float) -> None:
        """Sleep until `set` is called, or was called since the last time."""
        self._asleep.acquire(timeout=timeout)


class FirstUse(Wakeup):
    """Stands for that of a thread that is yet to be started."""

    def __init__(self, start: Callable[[], None]) -> None:
        super().__init__()
        self._start: Callable[[], None] | None = start
        self._starting = threading.Lock()

    def set(self) -> None:
        with self._starting:
            start, self._start = self._start, None
            if start is not None:
                start()
