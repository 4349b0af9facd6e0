"""Runs a command in an event loop: open the configured tools, use them, close them. Ctrl-C ends it at once.

asyncio's own runner waits at its end for every task and every thread of its pool, and a tool may hold both for ever.
This one gives them a moment, and then ends the process without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from toolrun.cli.exit import INTERRUPTED, OK
from toolrun.cli.held_output import held_output
from toolrun.cli.interrupt import Interrupt
from toolrun.cli.known_tools import remember_tools
from toolrun.cli.log_handler import set_up_log
from toolrun.cli.options import Options
from toolrun.cli.output import inform
from toolrun.config.model import Config
from toolrun.runtime import Runtime, read_config

if TYPE_CHECKING:
    from toolrun.execution.approval import OnApproval
    from toolrun.mcp.client.supervisor import Supervisor

T = TypeVar("T")

_GRACE: Final = 1.5
"""Seconds from Ctrl-C to the end of the process, whatever a tool does. Longer than the executor's grace period."""
_NOTICE: Final = 1.0
"""Seconds after which a command says what it waits for."""
_LAST_TURN: Final = 0.1
"""Seconds that cancelled tasks get at the end."""


def run_with_tools(
    options: Options,
    work: Callable[[Runtime], Awaitable[T]],
    *,
    on_progress: Callable[[str], None] | None = None,
    is_server: bool = False,
    lazy: bool = False,
    config: Config | None = None,
    on_approval: OnApproval | None = None,
) -> T:
    """Open the tools of the configuration and do the work with them.

    `on_progress` gets a line for each step of making an environment; by default a terminal shows them, otherwise the
    log. `is_server`: SIGTERM is the normal end of the work, so everything is closed and the exit code is 0; relative
    paths of tools begin in the directory of the project, as nobody knows where a server was started.
    `lazy`: a script is loaded when its tool is wanted, and the problems of files are not logged. `config` replaces the
    configuration that the options name. `on_approval` is asked about calls that need it.
    """
    config = config or read_config(options.config)
    set_up_log(config.log, options.verbosity)
    if on_progress is None and sys.stderr is not None and sys.stderr.isatty():
        on_progress = inform
    signals = (signal.SIGINT, signal.SIGTERM) if is_server else (signal.SIGINT,)
    if is_server:
        os.chdir(config.root)
    began, consumer = time_ns() // 1000, click.get_current_context().info_name or ""
    try:
        opened = open_runtime(options, config, on_progress, consumer, lazy=lazy, on_approval=on_approval)
        return run(options, _with_tools(opened, work), signals)
    except click.Abort:
        from toolrun.cli.recorded_call import doubts_since

        raise click.Abort(*doubts_since(config, began, consumer, options)) from None


async def ready_for(runtime: Runtime, tool: str, timeout: float | None = None) -> None:
    """Wait until the tool is there, or cannot be expected any more, for up to `timeout` seconds.

    If that takes a while, say what is waited for.
    """
    waiting = asyncio.ensure_future(runtime.ready(tool, timeout=timeout))
    try:
        await asyncio.wait({waiting}, timeout=_NOTICE)
        if not waiting.done() and (servers := runtime.awaited(tool)):
            names = ", ".join(f"'{server.name}'" for server in servers)
            which = "server" if len(servers) == 1 else "servers"
            limit = min(max(it.server.start_timeout for it in servers), timeout or math.inf)
            inform(
                f"Waiting for the MCP {which} {names}, still connecting, which may have the tool '{tool}', "
                f"for up to {limit:g} s. Ctrl-C ends it."
            )
        await waiting
    finally:
        waiting.cancel()


def connecting(runtime: Runtime) -> list[Supervisor]:
    """The MCP servers that are neither connected nor given up."""
    return [server for server in runtime.servers if not server.first_attempts_over.is_set()]


async def _with_tools(opened: AbstractAsyncContextManager[Runtime], work: Callable[[Runtime], Awaitable[T]]) -> T:
    async with opened as runtime:
        return await work(runtime)


@asynccontextmanager
async def open_runtime(
    options: Options,
    config: Config,
    on_progress: Callable[[str], None] | None,
    consumer: str = "",
    *,
    lazy: bool = False,
    on_approval: OnApproval | None = None,
) -> AsyncIterator[Runtime]:
    """The runtime of a command, by whose name the journal knows it. Under `toolrun record`, its calls are recorded."""
    opened = partial(
        Runtime.open,
        config,
        on_progress=on_progress,
        lazy=lazy,
        consumer=consumer,
        on_approval=on_approval,
        asks=options.asks,
    )
    record = options.record
    if record is None:
        async with opened() as runtime:
            try:
                yield runtime
            finally:
                remember_tools(runtime)
        return
    from toolrun.recording.recording_observer import Recorder

    secrets = () if record.with_secrets else config.secrets.values()
    with Recorder(record.file, secrets=secrets, overwrite=record.overwrite) as recorder:
        record.recorder = recorder
        async with opened(observers=(recorder,)) as runtime:
            recorder.watch(runtime.manager)
            yield runtime


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
            interrupt.work_ended()
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
    held_output.drop_status()
    with contextlib.suppress(OSError):  # not through sys.stderr: this may interrupt a write to it
        os.write(2, b"\ntoolrun: interrupted\n")
    os._exit(INTERRUPTED)
