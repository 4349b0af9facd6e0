"""One stay in the event loop: open the configured tools, do something with them, leave. Ctrl-C ends it at once.

asyncio's own runner waits at its end for every task and every thread of its pool, and a tool may keep both for ever.
Here each gets a moment; what is left then is left, and the process ends without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Final, TypeVar

import click

from toolrun.cli.log_handler import set_up_log
from toolrun.cli.options import Invocation
from toolrun.cli.output import inform
from toolrun.config.model import Config
from toolrun.runtime import Runtime, read_config

T = TypeVar("T")

_GRACE: Final = 1.5
"""Seconds from Ctrl-C to the end of the process, whatever a tool does. Longer than the executor's own grace."""
_LAST_TURN: Final = 0.1
"""Seconds that cancelled tasks get at the end."""


def run_with_tools(
    invocation: Invocation,
    work: Callable[[Runtime], Awaitable[T]],
    *,
    on_progress: Callable[[str], None] | None = None,
    ends_on_sigterm: bool = False,
) -> T:
    """Open the tools that the configuration names, and do the work with them.

    `on_progress` is told of environments that are being made; without it they are shown on a terminal, else logged.
    `ends_on_sigterm`: that signal is the usual end of the work, so everything is closed, and the exit code is 0.
    """
    config = read_config(invocation.config)
    set_up_log(config.log, invocation.verbosity)
    if on_progress is None and sys.stderr is not None and sys.stderr.isatty():
        on_progress = inform
    signals = (signal.SIGINT, signal.SIGTERM) if ends_on_sigterm else (signal.SIGINT,)
    return run(invocation, _with_tools(config, work, on_progress), signals)


async def _with_tools(
    config: Config, work: Callable[[Runtime], Awaitable[T]], on_progress: Callable[[str], None] | None
) -> T:
    async with Runtime.open(config, on_progress=on_progress) as runtime:
        return await work(runtime)


def run(
    invocation: Invocation, coroutine: Coroutine[Any, Any, T], signals: tuple[signal.Signals, ...] = (signal.SIGINT,)
) -> T:
    """The result of the coroutine. Raises click.Abort if Ctrl-C was pressed, click's Exit after SIGTERM."""
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor()  # for tools that use asyncio.to_thread
    loop.set_default_executor(threads)
    task = loop.create_task(coroutine)
    interrupt = _Interrupt(loop, task)
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        result = loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not interrupt.happened:
            raise
        raise interrupt.end() from None
    finally:
        interrupt.settle()
        threads.shutdown(wait=False, cancel_futures=True)
        end_loop(loop, invocation)
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupt.happened:
        raise interrupt.end()
    return result


def end_loop(loop: asyncio.AbstractEventLoop, invocation: Invocation) -> None:
    """Give what is left on the loop a moment to end. The loop must not be running."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_TURN))
    if asyncio.all_tasks(loop):
        invocation.is_stuck = True  # closing the loop under them would only make noise
        return
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class _Interrupt:
    """What Ctrl-C does, and SIGTERM: the first cancels the task; if that does not help soon, or at the second, the end.

    A handler of the loop would not do: it is not called while a tool blocks the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._loop = loop
        self._task = task
        self._limit = threading.Timer(_GRACE, self._give_up)
        self._limit.daemon = True
        self._signal = signal.SIGINT
        self.happened = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if self.happened:
            self._give_up()
        self.happened = True
        self._signal = signal.Signals(signal_number)
        self._limit.start()
        self._loop.call_soon_threadsafe(self._task.cancel)

    def settle(self) -> None:
        self._limit.cancel()

    def end(self) -> BaseException:
        """What to raise: to be stopped by SIGTERM is no failure."""
        return click.Abort() if self._signal is signal.SIGINT else click.exceptions.Exit(0)

    def _give_up(self) -> None:
        if self._signal is not signal.SIGINT:
            os._exit(0)
        with contextlib.suppress(OSError):  # not through sys.stderr: this may interrupt a write to it
            os.write(2, b"\ntoolrun: interrupted\n")
        os._exit(130)
