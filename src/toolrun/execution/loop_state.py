"""What an executor keeps for each event loop it is used on: futures, tasks and timers belong to one loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolrun.config.model import Limits
from toolrun.execution.admission import Limiter
from toolrun.execution.body import Body, Outcome
from toolrun.execution.deadline import GIVEN_UP, Deadlines, stopped
from toolrun.execution.parked_task import ParkedTasks
from toolrun.execution.thread import Threads
from toolrun.tools.context import Call

if TYPE_CHECKING:
    from toolrun.scripts.isolated import IsolatedTools


class LoopState:
    """Made when the first call runs on a loop."""

    __slots__ = ("deadlines", "has_forked", "isolated", "limiter", "limits", "loop", "parked_tasks", "threads")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, threads: Threads, has_forked: bool = False
    ) -> None:
        self.loop = loop
        self.has_forked = has_forked
        """Whether the executor comes from a parent process, to which its workers and servers belong."""
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

    async def wait(self, body: Body, call: Call) -> Outcome:
        """The outcome of a body, at the latest at the call's deadline."""
        self.deadlines.add(body, call)
        if call.on_late_end is not None:
            body.on_late_end = call.on_late_end
        try:
            value, error = await body.outcome
            if type(error) in GIVEN_UP:
                body.give_up()
        except asyncio.CancelledError:
            body.give_up()
            raise
        finally:
            self.deadlines.remove(body)
        return value, error

    def stop(self, call: Call, by: str) -> bool:
        """End a call that runs here or waits for its turn. False if it does neither."""
        return self.deadlines.stop(call, by) or self.limiter.stop(call, stopped(call, by))

    async def close(self, grace: float) -> None:
        """Cancel what runs on this loop, and wait up to `grace` seconds for it to end."""
        self.deadlines.close()
        if self.isolated is not None:
            await self.isolated.close()
        await self.parked_tasks.close(grace)
