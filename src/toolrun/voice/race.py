"""`race`: runs coroutines until the first one completes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def race(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run the coroutines until one completes or this is cancelled, then cancel the others. Raises their error."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        errors = [task.exception() for task in tasks if not task.cancelled()]
    for error in errors:
        if error is not None:
            raise error
