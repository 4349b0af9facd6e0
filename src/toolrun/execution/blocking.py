"""The only bridge from synchronous callers to the event loop.

A caller without a loop gets one of our own, in a daemon thread, one for the whole process. It does not borrow one that
another thread runs, which may end at any moment. Two kinds have to: calls of a runtime, whose workers belong
to its loop, and calls that a running tool makes. Such a caller never waits for longer than that loop runs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Final, TypeVar

from toolrun.errors import CallError, InvalidArgumentsError, SideEffects, UnavailableError, UsageError

T = TypeVar("T")

_POLL: Final = 0.1
"""Seconds between two looks at whether another thread's loop still runs: nothing tells when it ends."""


class LoopEndedError(Exception):
    """The event loop ended before the call."""

    def __init__(self, has_started: bool) -> None:
        super().__init__("the event loop ended")
        self.has_started = has_started
        """Whether the call may have begun."""


def sync_failure(error: LoopEndedError | UsageError, tool: str) -> CallError:
    """Why a synchronous call has no answer."""
    if isinstance(error, UsageError):
        return InvalidArgumentsError(f"Invalid call: {error}")
    effects = SideEffects.UNKNOWN if error.has_started else SideEffects.NOT_STARTED
    return UnavailableError(f"The event loop that runs '{tool}' has ended.", side_effects=effects)


def run_blocking(make: Callable[[], Coroutine[Any, Any, T]], home: asyncio.AbstractEventLoop | None) -> T:
    """Run a coroutine on `home`, which runs in another thread, or else on a loop of our own, and wait for it.

    Raises what the coroutine raises, UsageError inside a running loop, which it would block for ever, and
    LoopEndedError if `home` ends first.
    """
    if is_in_loop():
        raise UsageError("execute_sync would block the event loop that runs here; use 'await executor.execute(…)'")
    if home is not None:
        if not home.is_running():
            raise LoopEndedError(has_started=False)
        return _run_on(home, make)
    loop = background_loop()
    try:
        return _run_on(loop, make)
    except LoopEndedError as error:
        if error.has_started:
            raise
    return _run_on(background_loop(ended=loop), make)  # a tool of somebody else has stopped it


def is_in_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_on(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    waiting: concurrent.futures.Future[T] = concurrent.futures.Future()
    started: list[asyncio.Task[T]] = []
    context = copy_context()  # the call of a tool that runs here stays the caller of what it calls

    def start() -> None:
        task = loop.create_task(make(), context=context)
        started.append(task)
        task.add_done_callback(lambda done: _pass_on(done, waiting))

    try:
        loop.call_soon_threadsafe(start)
        while True:
            try:
                return waiting.result(_POLL)
            except concurrent.futures.TimeoutError:
                if waiting.done():
                    return waiting.result()
                if not loop.is_running():
                    raise LoopEndedError(bool(started)) from None
    except RuntimeError as error:
        if loop.is_closed():
            raise LoopEndedError(bool(started)) from error
        raise
    except concurrent.futures.CancelledError:  # somebody cancels everything on that loop, as `asyncio.run` does
        raise LoopEndedError(has_started=True) from None
    except BaseException:  # Ctrl-C while waiting: the call must not go on behind the caller's back
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])
        raise


def _pass_on(task: asyncio.Task[T], waiting: concurrent.futures.Future[T]) -> None:
    if task.cancelled():
        waiting.cancel()
    elif (error := task.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(task.result())


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_registered: list[bool] = []
_kept: list[object] = []
"""Loops of a parent process. To collect one would close it, and the parent shares its file descriptors."""


def background_loop(ended: asyncio.AbstractEventLoop | None = None) -> asyncio.AbstractEventLoop:
    """The loop of all callers that have none, made when the first of them calls, and anew when a tool has ended it."""
    global _loop, _thread
    with _lock:
        if _loop is not None and (_loop is ended or not (_thread and _thread.is_alive())):
            if _thread is not None:
                _thread.join(_POLL)
            with contextlib.suppress(RuntimeError):  # it still runs its last turn
                _loop.close()
            _loop = None
        if _loop is None:
            if not _registered:
                os.register_at_fork(after_in_child=_forget)
                _registered.append(True)
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="toolrun-loop", daemon=True)
            _thread.start()
        return _loop


def keep_from_collection(*parents: object) -> None:
    """In a child that was forked: keep what belongs to the parent's loops."""
    _kept.extend(parents)


def _forget() -> None:
    """In a child that was forked: the thread that ran the loop is not there, and its lock may be held for ever."""
    global _lock, _loop, _thread
    keep_from_collection(_loop)
    _lock, _loop, _thread = threading.Lock(), None, None
