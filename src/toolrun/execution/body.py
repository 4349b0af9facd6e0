"""The body of a call while it runs: in a task, in a thread, in another process, on a server.

The executor waits for every body in the same way, and whoever runs one need not know the executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from toolrun.json import JSON
from toolrun.tools.context import Call, OnLateEnd
from toolrun.tools.protocol import Tool

Outcome: TypeAlias = tuple[object, BaseException | None]
"""The value that a body returned, or what it raised."""


class Body(Protocol):
    """A body that has been started and has not ended."""

    outcome: asyncio.Future[Outcome]
    on_end: Callable[[], object] | None
    """Called when the body has ended, however long after the answer."""
    on_late_end: OnLateEnd | None
    """Called with the outcome of a body that ends after its call was answered, if it becomes known."""

    def give_up(self) -> object:
        """Nobody waits for it any more: stop it, if it can be stopped."""


class RemoteTool(Tool, Protocol):
    """A tool whose body runs elsewhere: in a worker, on a server."""

    def submit(self, call: Call) -> Body | None:
        """Start the body without a coroutine, if that is possible at this moment; otherwise None. Raises CallError."""

    async def ainvoke(self, arguments: dict[str, JSON]) -> object:
        """Run the body, and first whatever it takes to get there."""
