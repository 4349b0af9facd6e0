"""The tools and their event loop in a thread of their own, for a command that talks with somebody at the terminal.

The main thread is the stage: it waits for lines, and Python delivers Ctrl-C to it. So lines are edited with readline,
servers stay connected while somebody thinks, and Ctrl-C can end what runs without ending the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from toolrun.cli.options import Invocation
from toolrun.cli.session import end_loop
from toolrun.config.model import Config
from toolrun.runtime import Runtime

T = TypeVar("T")

_GRACE: Final = 2.0
"""Seconds after Ctrl-C from which on a second one ends the program: a tool that blocks the loop leaves no other way."""
_CLOSING: Final = 5.0
"""Seconds that everything has to end in."""


class Interrupted(Exception):
    """Ctrl-C was pressed, and what ran has ended."""


class Backstage:
    """Opens the tools of a configuration when it is entered, and ends everything when it is left."""

    runtime: Runtime

    def __init__(self, invocation: Invocation, config: Config, on_progress: Callable[[str], None] | None) -> None:
        self._invocation = invocation
        self._config = config
        self._on_progress = on_progress
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor()  # for tools that use asyncio.to_thread
        self._loop.set_default_executor(self._threads)
        self._leaving = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolrun-loop", daemon=True)
        self._host: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Raises Interrupted and ToolrunError."""
        self._thread.start()
        try:
            self.run(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self._close())
        finally:
            self._end()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine, which Ctrl-C cancels. Raises Interrupted once it has ended because of that."""
        done = threading.Event()
        started: list[asyncio.Task[T]] = []

        def start() -> None:
            started.append(self._loop.create_task(coroutine))
            started[0].add_done_callback(lambda _: done.set())

        self._loop.call_soon_threadsafe(start)
        interrupt = _Interrupt(lambda: self._loop.call_soon_threadsafe(lambda: started[0].cancel()))
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            done.wait()
        finally:
            interrupt.settle()
            signal.signal(signal.SIGINT, before)
        if started[0].cancelled():
            raise Interrupted
        return started[0].result()

    async def _open(self) -> None:
        opened = asyncio.Event()
        self._host = asyncio.create_task(self._keep_open(opened))
        waiting = asyncio.create_task(opened.wait())
        try:
            await asyncio.wait({self._host, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            if not opened.is_set():
                self._host.cancel()
                await asyncio.wait({self._host})
        if self._host.done():
            self._host.result()

    async def _keep_open(self, opened: asyncio.Event) -> None:
        async with Runtime.open(self._config, on_progress=self._on_progress) as runtime:
            self.runtime = runtime
            opened.set()
            await self._leaving.wait()

    async def _close(self) -> None:
        self._leaving.set()
        if self._host is not None:
            await asyncio.wait({self._host}, timeout=_CLOSING)

    def _end(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING)
        if self._thread.is_alive():
            self._invocation.is_stuck = True
        else:
            end_loop(self._loop, self._invocation)


class _Interrupt:
    """What Ctrl-C does while something runs."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._patience: threading.Timer | None = None

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if self._patience is None:
            self._patience = threading.Timer(_GRACE, self._explain)
            self._patience.daemon = True
            self._patience.start()
            self._cancel()
        elif not self._patience.is_alive():
            os._exit(130)

    def settle(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _explain(self) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"\ntoolrun: a tool blocks everything; Ctrl-C once more ends toolrun\n")
