"""An executor with a journal, and what its journal says."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolrun import ToolExecutor, ToolManager, tool
from toolrun.journal.history import PastCall, open_history
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder


class World:
    """An executor with a journal, and what the tools of a test share."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.journal = Journal(path, consumer="test", **options)
        self.manager = ToolManager()
        self.executor = self.another_executor()
        self.ran: list[Any] = []
        self.attempts = 0
        self.go_on = asyncio.Event()

    def another_executor(self, **options: Any) -> ToolExecutor:
        return ToolExecutor(self.manager, recorder=CallRecorder(self.journal), **options)

    @contextmanager
    def blocked_journal(self) -> Iterator[None]:
        """Nothing is written inside, as if the disk were busy."""
        is_blocked, go_on = threading.Event(), threading.Event()

        def block(_: sqlite3.Connection) -> None:
            is_blocked.set()
            go_on.wait(30)

        self.journal.run(block)
        assert is_blocked.wait(30)
        try:
            yield
        finally:
            go_on.set()

    def add(self, function: Any, **options: Any) -> None:
        self.manager.add(tool(**options)(function))

    async def calls(self) -> list[PastCall]:
        await self.journal.drain()
        with open_history(self.path) as history:
            return history.calls(limit=100_000)[::-1]

    async def states(self) -> list[str]:
        return [call.state for call in await self.calls()]


def add_act(world: World) -> None:
    """A tool that acts, and says so in `world.ran`."""

    async def act(n: int) -> dict[str, int]:
        """Act."""
        world.ran.append(n)
        await asyncio.sleep(0)
        return {"n": n}

    world.add(act)
