"""A project for each test, and the check that nothing of it is left: no process, task, thread or file descriptor."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("faults.bench", "leftovers")

from faults.bench import SUBJECT, TAG, Project  # noqa: E402  after the line above
from support.leftovers import nothing_left  # noqa: E402


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
    async with nothing_left(project.tag):
        yield
