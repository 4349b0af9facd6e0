"""A project for each test, and the check that nothing of it is left: no process, task, thread or file descriptor."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("faults.bench")

from faults.bench import SUBJECT, TAG, Project, children, tagged, until  # noqa: E402  after the line above


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scripts have the same requirements, so one environment is enough."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture
def project(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the script `subject`, and one that has nothing to do with it."""
    tag = secrets.token_hex(8)
    monkeypatch.setenv(TAG, tag)
    project = Project(tmp_path, cache, tag)
    project.write("subject", SUBJECT)
    return project


@pytest_asyncio.fixture(autouse=True)
async def nothing_of_it_is_left(project: Project) -> AsyncIterator[None]:
    processes, files = children(), _descriptors()
    yield
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    try:
        await until(lambda: not tagged(project.tag), "the end of all processes")
    finally:
        for pid in tagged(project.tag):
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
