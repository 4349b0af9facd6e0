"""What no test may leave behind. The fixture `nothing_left_behind` of tests/conftest.py holds every test to it.

- **Tasks** on the event loop of the test, once its fixtures have cleaned up. The loop's own ones, which close the
  generators that somebody dropped, are waited for.
- **Processes** that this one started and has not reaped, and those with the tag of the test in their environment,
  whoever their parent is by now. The latter are searched for only where a test uses the fixture `process_tag`, because
  that reads the environment of every process on the machine.
- **Threads** of toolrun, known by their names.
- **File descriptors** of any kind. Only the lock file of a journal stays open until the process ends; a test is over
  when no journal has it open, so it is closed here.

Other tasks must be gone at once. The system reports the end of processes, threads and descriptors late, so they have
`LIMIT`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.bench import LIMIT, children, tagged
from toolrun.journal.liveness import LockFile

HAS_PROC = Path("/proc/self/fd").exists()
"""Elsewhere, as on macOS, only tasks and threads are looked for."""


@dataclass(frozen=True)
class Existing:
    """What is there before a test."""

    processes: frozenset[int]
    threads: frozenset[str]
    descriptors: frozenset[str]

    @classmethod
    def now(cls) -> Existing:
        return cls(_children(), _threads(), _descriptors())

    def check_nothing_more(self, loop: asyncio.AbstractEventLoop | None, tag: str | None) -> None:
        """Fails if there is more now. `loop` is the event loop of the test, which does not run any more."""
        tasks = {task for task in _tasks(loop) if not _closes_a_generator(task)}

        def pause(seconds: float) -> None:
            if loop is None:
                time.sleep(seconds)
            else:
                loop.run_until_complete(asyncio.sleep(seconds))

        try:
            if tag is not None:
                _wait_for_no(lambda: tagged(tag), "processes with the tag of the test", pause)
        finally:
            for pid in tagged(tag) if tag is not None else ():  # they must not disturb the next test
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert not tasks, f"the test left tasks behind: {tasks}"
        _wait_for_no(lambda: _tasks(loop), "tasks", pause)
        _wait_for_no(lambda: _children() - self.processes, "child processes", pause)
        _wait_for_no(lambda: _threads() - self.threads, "threads", pause)
        _close_lock_files()
        _wait_for_no(lambda: _descriptors() - self.descriptors, "file descriptors", pause)


def _wait_for_no(left: Callable[[], object], what: str, pause: Callable[[float], None]) -> None:
    until = time.monotonic() + LIMIT
    while found := left():
        assert time.monotonic() < until, f"the test left {what} behind: {found}"
        pause(0.005)


def _tasks(loop: asyncio.AbstractEventLoop | None) -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks(loop) if loop else set()


def _closes_a_generator(task: asyncio.Task[Any]) -> bool:
    return type(task.get_coro()).__name__ == "async_generator_athrow"


def _close_lock_files() -> None:
    for locks in list(LockFile._shared.values()):
        if locks._users == 0:
            locks._let_go()


def _children() -> frozenset[int]:
    return frozenset(children() if HAS_PROC else ())


def _threads() -> frozenset[str]:
    return frozenset(
        f"{thread.name} {thread.ident}" for thread in threading.enumerate() if thread.name.startswith("toolrun")
    )


def _descriptors() -> frozenset[str]:
    found = set()
    for name in os.listdir("/proc/self/fd") if HAS_PROC else ():  # noqa: PTH208  runs twice in each test
        with suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")  # noqa: PTH115  as above
    return frozenset(it for it in found if "/proc/" not in it)  # the one that this is read with
