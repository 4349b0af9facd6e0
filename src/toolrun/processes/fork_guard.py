"""How many processes a worker has, so that a fork bomb ends before its deadline. Linux only.

Four times a second, while there are workers, it looks at one number: that of the process which was started last on this
machine. The processes of the workers are counted only if many were started since the last count. A call costs nothing.

RLIMIT_NPROC would not do: it does not hold for root, and counts all the processes of the user.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from toolrun.processes.watchdog import count_marked, last_pid

MAX_PROCESSES: Final = 1000
"""Of one worker at the same time. It may be half as many more when it is noticed."""
_INTERVAL: Final = 0.25
"""Seconds between two looks."""


class Census:
    """Has workers killed that have too many processes. Belongs to one event loop."""

    def __init__(self, name: str) -> None:
        """`name` is that of the variable with the mark of a worker."""
        self._prefix = f"{name}=".encode()
        self._workers: dict[bytes, Callable[[str], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._counted_at = 0
        """The process that was started last when they were counted."""

    def add(self, mark: str, kill: Callable[[str], None]) -> None:
        """`kill` is told the reason."""
        self._workers[mark.encode()] = kill
        if self._timer is None and sys.platform == "linux":
            with suppress(OSError):  # no descriptor to read /proc with: they are counted at the next look
                self._counted_at = last_pid()  # so far it has none
            self._look_later()

    def remove(self, mark: str) -> None:
        self._workers.pop(mark.encode(), None)
        if not self._workers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._look)

    def _look(self) -> None:
        self._look_later()
        with suppress(OSError):  # as above
            latest = last_pid()
            if not 0 <= latest - self._counted_at < MAX_PROCESSES // 2:  # less than 0: they began again from below
                self._count()
                self._counted_at = latest

    def _count(self) -> None:
        counts = count_marked(self._prefix)
        for mark, kill in self._workers.items():
            if counts[mark] > MAX_PROCESSES:
                kill(f"killed by toolrun: it had more than {MAX_PROCESSES} processes")
