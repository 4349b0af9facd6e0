"""How the task that holds a session ends, and why it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from toolrun.logger import get_logger
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, RpcError, TransportError

logger = get_logger("toolrun.mcp")

T = TypeVar("T")


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end, also if whoever waits is cancelled meanwhile."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


@asynccontextmanager
async def task_in_block(coroutine: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """A task that ends with the block."""
    task = asyncio.get_running_loop().create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def loss_of(holder: asyncio.Task[None]) -> LostError:
    """Why a session ended, whatever it raised."""
    error = None if holder.cancelled() else holder.exception()
    while isinstance(error, BaseExceptionGroup):  # the SDK's transports put everything into groups
        error = error.exceptions[0]
    if isinstance(error, LostError):
        return error
    if isinstance(error, TransportError):
        return LostError(f"it answered {error.summary}")
    if isinstance(error, RpcError):
        return LostError(f"it answered with error {error.code}: {error.message}")
    if error is not None and not isinstance(error, BadAnswerError | OSError):
        logger.debug("a session ended with an unexpected exception", exc_info=error)
    return LostError(str(error or "") or "the session ended")
