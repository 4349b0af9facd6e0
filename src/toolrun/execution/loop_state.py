"""What an executor keeps for each event loop it is used on: futures, tasks and timers belong to one loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolrun.config.model import Limits
from toolrun.execution.admission import Limiter
from toolrun.execution.deadline import Deadlines
from toolrun.execution.parked_task import ParkedTasks
from toolrun.execution.thread import Threads

if TYPE_CHECKING:
    from toolrun.scripts.isolated import IsolatedTools


class LoopState:
    """Made when the first call runs on a loop."""

    __slots__ = ("deadlines", "isolated", "limiter", "limits", "loop", "parked_tasks", "threads")

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, threads: Threads) -> None:
        self.loop = loop
        self.limits = limits
        self.limiter = Limiter(limits.max_concurrency, limits.max_queue)
        self.deadlines = Deadlines(loop)
        self.parked_tasks = ParkedTasks(loop)
        self.threads = threads
        """Shared by all loops of an executor."""
        self.isolated: IsolatedTools | None = None

    def isolated_tools(self) -> IsolatedTools:
        """The workers of functions that are declared `isolated`, loaded when the first of them is called."""
        if self.isolated is None:
            from toolrun.scripts.isolated import IsolatedTools

            self.isolated = IsolatedTools()
        return self.isolated

    async def close(self, grace: float) -> None:
        """Cancel what runs on this loop, and wait up to `grace` seconds for it to end."""
        self.deadlines.close()
        if self.isolated is not None:
            await self.isolated.close()
        await self.parked_tasks.close(grace)
