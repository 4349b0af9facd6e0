"""Waiting in tests: until something is so, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(is_so: Callable[[], object], limit: float = 30.0) -> None:
    """Let the loop run until it is so. What a thread or another process does can only be looked at again and again."""
    async with asyncio.timeout(limit):
        while not is_so():  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.001)
