"""A clock for tests about time: the event loop's and toolrun's, which stands still until the test moves it.

On Linux and macOS `loop.time`, `time.monotonic` and `time.perf_counter` are one clock, so one replacement serves for
all. Processes, sockets and threads go on in real time: only what waits for a moment waits for the test.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import toolrun.execution.executor
import toolrun.mcp.client.mcp_source
import toolrun.scripts.source
import toolrun.voice.memory  # noqa: F401  what is not imported yet would keep its own clock

_REAL = (time.monotonic, time.perf_counter)
_ROUNDS = 50
"""Rounds of the event loop in which everything that is due has begun."""


class Clock:
    """Runs as usual until `stop`; from then on it shows what `advance` makes of it."""

    def __init__(self) -> None:
        self._stopped: float | None = None
        self._origin = 0.0

    def now(self) -> float:
        return time.monotonic() if self._stopped is None else self._stopped

    @property
    def elapsed(self) -> float:
        """Seconds since it was stopped, by itself."""
        return self.now() - self._origin

    def stop(self) -> None:
        """A whole number of seconds, so that sums of halves and quarters are exact."""
        self._stopped = self._origin = float(math.ceil(time.monotonic()))

    def resume(self) -> None:
        """Run as usual again."""
        self._stopped = None

    def skip(self, seconds: float) -> None:
        """Let so much time pass at once, without a round of the event loop. Any thread may do it."""
        assert self._stopped is not None, "stop the clock first"
        self._stopped += seconds

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, and let what is due begin."""
        self.skip(seconds)
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)


@contextmanager
def installed(clock: Clock, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """The clock in place of that of the loop, and of every module of toolrun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", clock.now)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "toolrun":
                for attribute, value in list(vars(module).items()):
                    if any(value is real for real in _REAL):
                        patch.setattr(module, attribute, clock.now)
        yield


class Told(logging.Handler):
    """Waits until something is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[str] = []
        self._news = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self._news.set()

    async def until(self, part: str) -> None:
        """Wait until a message has this in it. Limited by the timeout of the test: its clock may stand still."""
        while not any(part in message for message in self.messages):
            self._news.clear()
            await self._news.wait()


@contextmanager
def told(name: str) -> Iterator[Told]:
    """What is logged under a name from now on."""
    logger, handler = logging.getLogger(name), Told()
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
