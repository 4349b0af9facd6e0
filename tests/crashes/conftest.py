"""Fixtures of the trials in which programs are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crashes.trial import Hosts, Trial


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the environment of the script, which is the same in all tests."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture
def make_trial(tmp_path: Path, cache: Path) -> Iterator[Callable[[str, str, int], Trial]]:
    with Hosts() as hosts:
        yield lambda kind, promise, calls: Trial(hosts, tmp_path, kind, promise, calls, cache)
