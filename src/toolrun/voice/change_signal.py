"""`ChangeSignal`: lets several tasks wait for the next change of a state that they check themselves."""

from __future__ import annotations

import asyncio


class ChangeSignal:
    """Like `asyncio.Condition`, but notified without awaiting a lock. Not for threads."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next `notify`."""
        await self._next.wait()

    def notify(self) -> None:
        """Wake every task that is waiting now."""
        changed, self._next = self._next, asyncio.Event()
        changed.set()
