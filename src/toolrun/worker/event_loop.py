"""The event loop that async functions run on: one for all calls, so that a client or a pool that a script keeps stays
usable. Imported only for async functions: importing `asyncio` takes longer than the whole start of a worker.
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
            # Raised by another task: it leaves the loop at once, and whoever awaits that task gets it too.
            # RuntimeError: the tool has stopped the loop.
            if task.done():
                raise


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
