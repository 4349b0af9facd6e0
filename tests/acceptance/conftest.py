"""What the acceptance tests work with: a project on disk, and a service that cannot be reached."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

pytest.register_assert_rewrite(
    "acceptance.clients",
    "acceptance.processes",
    "acceptance.project",
    "acceptance.proofs",
    "acceptance.puppet",
    "acceptance.server",
    "acceptance.transcribing",
)

from acceptance.clock import Clock, installed  # noqa: E402  as below
from acceptance.project import Project  # noqa: E402  after the line that makes its asserts speak


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project, with its own cache.

    Opening a project appends its root to `sys.path`, which is put back.
    """
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("TOOLRUN_WORKERS_CACHE", str(tmp_path / "cache"))
    return Project(tmp_path)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A loopback port at which nobody listens, and which nobody else can get meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest_asyncio.fixture
async def clock() -> AsyncIterator[Clock]:
    """The clock of the test's event loop and of toolrun. It runs as usual until the test stops it."""
    made = Clock()
    with installed(made, asyncio.get_running_loop()):
        yield made
