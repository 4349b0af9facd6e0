"""The servers, or the reason why there are none. Their processes carry the tag of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("faults_mcp.bench")

from faults_mcp.bench import Servers  # noqa: E402  after the line above
from real_servers.servers import SERVERS, Everything, RealServer, configured  # noqa: E402


@pytest.fixture
def servers(tmp_path: Path, process_tag: str) -> Servers:
    """A configuration with a server that has nothing to do with the others."""
    return Servers(tmp_path, process_tag)


@pytest.fixture(params=SERVERS, ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[RealServer]:
    """Each of them, in the configuration."""
    with configured(request.param, servers) as server:
        yield server


@pytest.fixture
def everything(servers: Servers) -> Iterator[RealServer]:
    with configured(Everything, servers) as server:
        yield server
