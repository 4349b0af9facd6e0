"""What every test gets: nothing may be left behind, and nothing may reach the user's own configuration."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from toolrun import ToolExecutor, ToolManager


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TOOLRUN_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves threads or file descriptors of toolrun's."""
    threads_before = set(threading.enumerate())
    files_before = _open_files()
    yield
    if request.node.get_closest_marker("leaves_threads") is None:
        left = [it for it in threading.enumerate() if it not in threads_before and it.name == "toolrun"]
        for thread in left:
            thread.join(timeout=10)  # one that was told to end may need a moment
        assert not [it for it in left if it.is_alive()], "the test left threads behind"
    leaked = _open_files() - files_before
    assert not leaked, f"the test left file descriptors open: {leaked}"


def _open_files() -> set[str]:
    """What is open, apart from what event loops of the test tools themselves keep."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").exists() else ():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if not target.startswith(("socket:", "anon_inode:", "/dev/")):
            found.add(f"{entry.name} -> {target}")
    return found


@pytest_asyncio.fixture
async def executor() -> AsyncIterator[ToolExecutor]:
    """An executor with no tools yet, closed at the end. Fails the test if a task is left then."""
    made = ToolExecutor(ToolManager(), timeout=5.0)
    yield made
    await made.close()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"the test left tasks behind: {left}"
