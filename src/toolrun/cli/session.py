"""Runs a command in an event loop: open the configured tools, use them, close them. Ctrl-C ends it at once.

asyncio's own runner waits at its end for every task and every thread of its pool, and a tool may hold both for ever.
This one gives them a moment, and then ends the process without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from toolrun.cli.exit import INTERRUPTED, OK
from toolrun.cli.interrupt import Interrupt
from toolrun.cli.log_handler import set_up_log
from toolrun.cli.options import Options
from toolrun.cli.output import inform
from toolrun.config.model import Config
from toolrun.runtime import Runtime, read_config

if TYPE_CHECKING:
    from toolrun.mcp.client.supervisor import Supervisor

T = TypeVar("T")

_GRACE: Final = 1.5
"""Seconds from Ctrl-C to the end of the process, whatever a tool does. Longer than the executor's grace period."""
_LAST_TURN: Final = 0.1
"""Seconds that cancelled tasks get at the end."""


def run_with_tools(
    options: Options,
    work: Callable[[Runtime], Awaitable[T]],
    *,
    on_progress: Callable[[str], None] | None = None,
    ends_on_sigterm: bool = False,
    lazy: bool = False,
) -> T:
    """Open the tools of the configuration and do the work with them.

    `on_progress` gets a line for each step of making an environment; by default a terminal shows them, otherwise the
    log. `ends_on_sigterm`: SIGTERM is the normal end of the work, so everything is closed and the exit code is 0.
    `lazy`: a script is loaded when its tool is wanted, and the problems of files are not logged.
    """
    config = read_config(options.config)
    set_up_log(config.log, options.verbosity)
    if on_progress is None and sys.stderr is not None and sys.stderr.isatty():
        on_progress = inform
    signals = (signal.SIGINT, signal.SIGTERM) if ends_on_sigterm else (signal.SIGINT,)
    return run(options, _with_tools(config, work, on_progress, lazy), signals)


def unsettled(runtime: Runtime) -> list[Supervisor]:
    """The MCP servers that are neither connected nor given up."""
    return [server for server in runtime.servers if not server.settled.is_set()]


async def _with_tools(
    config: Config, work: Callable[[Runtime], Awaitable[T]], on_progress: Callable[[str], None] | None, lazy: bool
) -> T:
    async with Runtime.open(config, on_progress=on_progress, lazy=lazy) as runtime:
        return await work(runtime)


def run(
    options: Options, coroutine: Coroutine[Any, Any, T], signals: tuple[signal.Signals, ...] = (signal.SIGINT,)
) -> T:
    """The result of the coroutine. Raises click.Abort after Ctrl-C, click's Exit after SIGTERM."""
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor()  # for tools that use asyncio.to_thread
    loop.set_default_executor(threads)
    task = loop.create_task(coroutine)
    interrupt = Interrupt(
        lambda: loop.call_soon_threadsafe(task.cancel),
        grace=_GRACE,
        on_overdue=_give_up,
        on_repeat=_give_up,
        signals=signals,
    )
    with interrupt:
        try:
            result = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if interrupt.signal is None:
                raise
            raise _ending(interrupt.signal) from None
        finally:
            interrupt.settle()
            threads.shutdown(wait=False, cancel_futures=True)
            end_loop(loop, options)
    if interrupt.signal is not None:
        raise _ending(interrupt.signal)
    return result


def end_loop(loop: asyncio.AbstractEventLoop, options: Options) -> None:
    """Give the remaining tasks a moment to end, and close the loop, which must not be running."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_TURN))
    if asyncio.all_tasks(loop):
        options.is_stuck = True  # closing the loop under them would only make noise
        return
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _ending(number: signal.Signals) -> BaseException:
    """What to raise: SIGTERM is a normal end."""
    return click.Abort() if number is signal.SIGINT else click.exceptions.Exit(OK)


def _give_up(interrupt: Interrupt) -> None:
    if interrupt.signal is not signal.SIGINT:
        os._exit(OK)
    with contextlib.suppress(OSError):  # not through sys.stderr: this may interrupt a write to it
        os.write(2, b"\ntoolrun: interrupted\n")
    os._exit(INTERRUPTED)
