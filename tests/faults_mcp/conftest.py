"""Servers for each test, and the check that nothing of them is left: no process, task, thread or file descriptor."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("faults.bench", "faults_mcp.bench")

from faults.bench import children, tagged, until  # noqa: E402  after the line above
from faults_mcp.bench import Servers  # noqa: E402


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    """A server `subject`, and one that has nothing to do with it."""
    servers = Servers(tmp_path, secrets.token_hex(8))
    servers.add("subject")
    return servers


@pytest_asyncio.fixture(autouse=True)
async def nothing_of_it_is_left(servers: Servers) -> AsyncIterator[None]:
    before, files = children(), _descriptors()
    yield
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    try:
        await until(lambda: not tagged(servers.tag), "the end of all processes")
    finally:
        for pid in tagged(servers.tag):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not tasks, f"the test left tasks: {tasks}"
    assert children() <= before, "the test left child processes"
    assert _descriptors() <= files, "the test left file descriptors"


def _descriptors() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(f"{entry.name} {entry.readlink()}")
    return {it for it in found if "/proc/" not in it}  # the one that this is read with
