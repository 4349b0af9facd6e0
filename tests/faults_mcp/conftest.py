"""Servers for each test, and the check that nothing of them is left: no process, task, thread or file descriptor."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("faults.bench", "faults_mcp.bench", "leftovers")

from faults_mcp.bench import Servers  # noqa: E402  after the line above
from support.leftovers import nothing_left  # noqa: E402


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    """A server `subject`, and one that has nothing to do with it."""
    servers = Servers(tmp_path, secrets.token_hex(8))
    servers.add("subject")
    return servers


@pytest_asyncio.fixture(autouse=True)
async def nothing_of_it_is_left(servers: Servers) -> AsyncIterator[None]:
    async with nothing_left(servers.tag):
        yield
