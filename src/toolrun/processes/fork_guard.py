"""Limits how many processes a worker may have, so that a fork bomb ends before its deadline. Linux only.

Four times a second, while workers exist, the guard reads one number: the pid of the process that this machine started
last. It counts the processes of the workers only after many new pids. A call costs nothing.

A process belongs to a worker if it descends from the worker's first process, to which orphans are left (it is their
subreaper, or the parent of PID 1 of their namespace), whatever it has done with its environment. Or if it has the
worker's tag: a process that was started without a first process of ours adopts no orphans.

RLIMIT_NPROC would not do: it does not bind root, and it counts all processes of the user.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from toolrun.processes.watchdog import descendants, find_children, find_tagged, last_pid

MAX_PROCESSES: Final = 1000
"""Of one worker at the same time. There may be half as many more by the time the guard notices."""
_INTERVAL: Final = 0.25
"""Seconds between two looks."""


class ForkGuard:
    """Kills workers that have too many processes. Belongs to the event loop of its engine."""

    def __init__(self, variable: str) -> None:
        """`variable` is the environment variable that holds the tag."""
        self._prefix = f"{variable}=".encode()
        self._workers: dict[bytes, tuple[int, Callable[[str], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._counted_at = 0
        """The last pid at the time of the last count."""

    def add(self, tag: str, pid: int, kill: Callable[[str], None]) -> None:
        """`pid` is the first process of the worker. `kill` gets the reason."""
        self._workers[tag.encode()] = pid, kill
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
        tagged, children = find_tagged(self._prefix), find_children()
        for tag, (pid, kill) in list(self._workers.items()):
            if len(descendants(pid, children) | tagged.get(tag, set())) > MAX_PROCESSES:
                kill(f"killed by toolrun: it had more than {MAX_PROCESSES} processes")
