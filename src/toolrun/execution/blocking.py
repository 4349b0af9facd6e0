"""The only bridge from synchronous callers to the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from toolrun.errors import UsageError

T = TypeVar("T")


def run_blocking(coroutine: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop | None) -> T:
    """Run on `home` if that loop is running elsewhere, else on a loop of our own, and wait for the result.

    From inside a running loop it would block that loop for ever, so it is refused there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = home if home is not None and home.is_running() else _background_loop()
    else:
        coroutine.close()
        raise UsageError("execute_sync would block the event loop that runs here; use 'await executor.execute(…)'")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:  # Ctrl-C while waiting: the call must not go on behind the caller's back
        future.cancel()
        raise


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="toolrun-loop", daemon=True).start()
    return loop
