"""That a test leaves nothing: no process, task, thread or file descriptor."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from faults.bench import children, tagged, until


@asynccontextmanager
async def nothing_left(tag: str) -> AsyncIterator[None]:
    """`tag` is in the environment of all processes that the test starts."""
    processes, files = children(), _descriptors()
    yield
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    try:
        await until(lambda: not tagged(tag), "the end of all processes")
    finally:
        for pid in tagged(tag):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not tasks, f"the test left tasks: {tasks}"
    await until(lambda: children() <= processes, "the end of all child processes")
    await until(lambda: not _threads(), "the end of all threads")
    await until(lambda: _descriptors() <= files, "the end of all file descriptors")


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("toolrun")]


def _descriptors() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(f"{entry.name} {entry.readlink()}")
    return {it for it in found if "/proc/" not in it}  # the one that this is read with
