"""Runs the tools in an event loop in a second thread, for a command that reads lines from the terminal.

The main thread waits for lines, and Python delivers Ctrl-C to it. So readline edits the lines, servers stay connected
while the user thinks, and Ctrl-C can cancel a call without ending the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from toolrun.cli.command_runner import end_loop, open_runtime
from toolrun.cli.exit import INTERRUPTED
from toolrun.cli.held_output import held_output
from toolrun.cli.interrupt import Interrupt
from toolrun.cli.options import Options
from toolrun.config.model import Config
from toolrun.execution.approval import OnApproval
from toolrun.runtime import Runtime

T = TypeVar("T")

_GRACE: Final = 2.0
"""Seconds after which a second Ctrl-C ends the program: a tool that blocks the loop leaves no other way."""
_CLOSING: Final = 5.0
"""Seconds for everything to end."""


class Interrupted(Exception):
    """Ctrl-C was pressed, and the work has ended."""


class LoopThread:
    """Opens the tools of a configuration on `__enter__`, and closes everything on `__exit__`."""

    runtime: Runtime

    def __init__(
        self,
        options: Options,
        config: Config,
        on_progress: Callable[[str], None] | None,
        consumer: str = "",
        on_approval: OnApproval | None = None,
    ) -> None:
        """`consumer` is who the journal says makes the calls, `on_approval` who is asked about them."""
        self._options = options
        self._consumer = consumer
        self._config = config
        self._on_progress = on_progress
        self._on_approval = on_approval
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
        """The result of the coroutine. Ctrl-C cancels it, and Interrupted is raised once it has ended."""
        done = threading.Event()
        started: list[asyncio.Task[T]] = []

        def start() -> None:
            started.append(self._loop.create_task(coroutine))
            started[0].add_done_callback(lambda _: done.set())

        def cancel() -> None:
            self._loop.call_soon_threadsafe(lambda: started[0].cancel())  # after `start`, which is scheduled first

        self._loop.call_soon_threadsafe(start)
        with Interrupt(cancel, grace=_GRACE, on_overdue=_explain, on_repeat=_end_if_overdue):
            done.wait()
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
        opening = open_runtime(
            self._options, self._config, self._on_progress, self._consumer, on_approval=self._on_approval
        )
        async with opening as runtime:
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
            self._options.is_stuck = True
        else:
            end_loop(self._loop, self._options)


def _explain(interrupt: Interrupt) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"\ntoolrun: a tool blocks the event loop; press Ctrl-C again to end toolrun\n")


def _end_if_overdue(interrupt: Interrupt) -> None:
    if interrupt.is_overdue:
        held_output.drop_status()
        os._exit(INTERRUPTED)
