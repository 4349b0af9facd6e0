"""What outer does for as long as its worker lives: it waits, ends whatever the worker leaves behind, and ends like it.

Runs outside of the walls, in the process that the host has started (`sandbox.py`). Standard library only, Python 3.9
or newer.
"""

from __future__ import annotations

import os
from _signal import (  # type: ignore[import-not-found]  # importing `signal` takes 4 ms, for its enums
    SIG_DFL,
    SIGKILL,
    SIGUSR2,
    signal,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def supervise(worker: int, init: int, host: int, call: Callable[..., int]) -> NoReturn:
    """Wait until the worker has ended, end whatever it left behind, and end in the same way.

    `init` is PID 1 of the worker's namespace, or 0. `call` calls a function of the C library.
    """
    if not init:
        # Killed with the host, it could not kill the others. A worker that sends this signal only ends itself.
        signal(SIGUSR2, lambda *_: _kill(worker))
        call("prctl", _PR_SET_PDEATHSIG, int(SIGUSR2), 0, 0, 0)
        if os.getppid() != host:
            _kill(worker)
    os.closerange(0, 256)
    ended, status = 0, 0
    while ended != worker:
        ended, status = os.waitpid(-1, 0)
    if init:
        _kill(init)
        os.waitpid(init, 0)
    else:
        _kill_children()
    if os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.WTERMSIG(status) != SIGKILL:
            signal(os.WTERMSIG(status), SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _kill_children() -> None:
    """Kill all children, and those that they leave to this process, until there is none: the kernel says so."""
    own = os.getpid()
    while True:
        for pid in _children(own):
            _kill(pid)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _children(parent: int) -> list[int]:
    try:
        file = os.open(f"/proc/{parent}/task/{parent}/children", os.O_RDONLY)
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == parent]
    try:
        return [int(pid) for pid in b"".join(iter(lambda: os.read(file, 65536), b"")).split()]
    finally:
        os.close(file)


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except ProcessLookupError:
        return
