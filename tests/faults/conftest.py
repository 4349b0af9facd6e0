"""A project for each test, whose processes carry the tag of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.bench import SUBJECT, TAG, Project


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scripts have the same requirements, so one environment is enough."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture
def project(tmp_path: Path, cache: Path, process_tag: str, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the script `subject`, and one that has nothing to do with it."""
    monkeypatch.setenv(TAG, process_tag)
    project = Project(tmp_path, cache, process_tag)
    project.write("subject", SUBJECT)
    return project
