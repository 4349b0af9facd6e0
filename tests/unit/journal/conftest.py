"""A journal with calls, for the tests of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.journal_world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "journal.db")
    yield world
    world.go_on.set()
    await world.executor.close()
    world.journal.close()
