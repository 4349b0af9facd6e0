"""Reaps the processes that this one adopted: a host that is PID 1 of its container, or a subreaper.

A process whose parent dies gets a new parent, and stays a zombie until that waits for it. In a container that may be
the host, which did not start the process and would never wait for it. But it must not wait for what somebody else in
this program started: the exit code would be lost to `subprocess`, `asyncio` or whoever called `fork`.

A zombie shows neither its environment nor where it came from, but still its resource limits, which it inherited. So
each process that an engine starts is marked with a value of RLIMIT_LOCKS, which has had no effect since Linux 2.4.25. A
zombie child with that mark that is not a process of the engine itself was adopted. Linux only; elsewhere nothing is
done.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

_RLIMIT_LOCKS: Final = 10


class ZombieReaper:
    """Of the descendants of marked processes, when this process has become their parent."""

    def __init__(self) -> None:
        self._mark = secrets.randbits(60) | 1 << 60

    def mark(self, pid: int) -> None:
        """Mark a process that was just started, and so all that it will start."""
        if sys.platform == "linux":
            import resource

            with suppress(OSError, ValueError):  # it has ended already, or the system forbids it
                resource.prlimit(pid, _RLIMIT_LOCKS, (self._mark, resource.RLIM_INFINITY))

    def reap(self, own: Collection[int]) -> bool:
        """Wait for those that have ended, except for the engine's `own` processes. Whether there may be more later."""
        if sys.platform != "linux" or not _has_zombie():
            return False
        for pid, state, _ in _children():
            if state == b"Z" and pid not in own and self._is_marked(pid):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return True

    def _is_marked(self, pid: int) -> bool:
        import resource

        with suppress(OSError):
            return resource.prlimit(pid, _RLIMIT_LOCKS)[0] == self._mark
        return False


def _has_zombie() -> bool:
    """Whether a child has ended and was not waited for. One system call, which takes nothing away from anybody."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def reap_session(leader: int) -> bool:
    """Wait for adopted processes of the session of a child that was waited for before. Whether some are still alive.

    A process of ours is in our session, or leads its own: these can only have been adopted.
    """
    is_alive = False
    for pid, state, session in _children():
        if session == leader:
            is_alive = is_alive or state != b"Z"
            if state == b"Z":
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
    return is_alive


def _children() -> Iterator[tuple[int, bytes, int]]:
    """The children of this process: number, state, session."""
    if sys.platform != "linux":
        return
    parent = str(os.getpid()).encode()
    for entry in os.listdir("/proc"):  # noqa: PTH208  half the time of pathlib, and often
        if entry.isdigit():
            with suppress(OSError, IndexError):
                with open(f"/proc/{entry}/stat", "rb", buffering=0) as file:  # noqa: PTH123  as above
                    fields = file.read().rpartition(b")")[2].split()
                if fields[1] == parent:
                    yield int(entry), fields[0], int(fields[3])
