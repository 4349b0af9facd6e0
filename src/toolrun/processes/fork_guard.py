"""Limits how many processes a worker may have, so that a fork bomb ends before its deadline. Linux only.

Four times a second, while workers exist, the guard reads one number: the pid of the process that this machine started
last. It counts the processes of the workers only after many new pids. A call costs nothing.

RLIMIT_NPROC would not do: it does not bind root, and it counts all processes of the user.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from toolrun.processes.watchdog import count_tagged, last_pid

MAX_PROCESSES: Final = 1000
"""Of one worker at the same time. There may be half as many more by the time the guard notices."""
_INTERVAL: Final = 0.25
"""Seconds between two looks."""


class ForkGuard:
    """Kills workers that have too many processes. Belongs to one event loop."""

    def __init__(self, variable: str) -> None:
        """`variable` is the environment variable that holds the tag."""
        self._prefix = f"{variable}=".encode()
        self._workers: dict[bytes, Callable[[str], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._counted_at = 0
        """The last pid at the time of the last count."""

    def add(self, tag: str, kill: Callable[[str], None]) -> None:
        """`kill` gets the reason."""
        self._workers[tag.encode()] = kill
        if self._timer is None and sys.platform == "linux":
            with suppress(OSError):  # no descriptor left to read /proc with: the next look counts
                self._counted_at = last_pid()  # the worker has no children yet
            self._look_later()

    def remove(self, tag: str) -> None:
        self._workers.pop(tag.encode(), None)
        if not self._workers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._look)

    def _look(self) -> None:
        self._look_later()
        with suppress(OSError):  # as above
            latest = last_pid()
            if not 0 <= latest - self._counted_at < MAX_PROCESSES // 2:  # negative: the pids wrapped around
                self._count()
                self._counted_at = latest

    def _count(self) -> None:
        counts = count_tagged(self._prefix)
        for tag, kill in self._workers.items():
            if counts[tag] > MAX_PROCESSES:
                kill(f"killed by toolrun: it had more than {MAX_PROCESSES} processes")
