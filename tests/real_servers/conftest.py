"""The servers, or the reason why there are none, and the check that nothing of them is left."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("faults.bench", "faults_mcp.bench")

from faults.bench import tagged, until  # noqa: E402  after the line above
from faults_mcp.bench import Servers  # noqa: E402
from real_servers.servers import SERVERS, Everything, RealServer, configured  # noqa: E402


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    """A configuration with a server that has nothing to do with the others."""
    return Servers(tmp_path, secrets.token_hex(8))


@pytest_asyncio.fixture(autouse=True)
async def nothing_of_it_is_left(servers: Servers) -> AsyncIterator[None]:
    yield
    await until(lambda: not tagged(servers.tag), "the end of all processes")
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"the test left tasks: {left}"


@pytest.fixture(params=SERVERS, ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[RealServer]:
    """Each of them, in the configuration."""
    with configured(request.param, servers) as server:
        yield server


@pytest.fixture
def everything(servers: Servers) -> Iterator[RealServer]:
    with configured(Everything, servers) as server:
        yield server
