"""Servers for each test, whose processes carry the tag of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("faults_mcp.bench")

from faults_mcp.bench import Servers  # noqa: E402  after the line above


@pytest.fixture
def servers(tmp_path: Path, process_tag: str) -> Servers:
    """A server `subject`, and one that has nothing to do with it."""
    servers = Servers(tmp_path, process_tag)
    servers.add("subject")
    return servers
