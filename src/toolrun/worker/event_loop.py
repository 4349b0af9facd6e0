"""The event loop that async functions run on: one for all calls, so that what a script keeps (a client, a pool) stays
usable. Imported only where something is async: `asyncio` takes longer than the whole start of a worker.
"""

from __future__ import annotations

import asyncio
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any


def event_loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop | None = None
    if sys.version_info < (3, 10):  # workers run on older Pythons than the host
        # There a lock or an event that the script made at import belongs to the default loop.
        try:
            loop = asyncio.get_event_loop()
        except RuntimeError:
            loop = None
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def complete(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[Any]) -> Any:
    """Run the loop until there is a result."""
    task = loop.create_task(_awaited(awaitable))
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt, RuntimeError):
            # Of another task: it gets out of the loop at once, and then also to whoever awaits that task.
            # RuntimeError: the tool has stopped the loop.
            if task.done():
                raise


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
