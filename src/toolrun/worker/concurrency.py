"""Runs many calls at once: async functions as tasks of one event loop, others in threads.

The contract is in `__main__.py`; `serve.py` has what one call is. Whatever ends a call posts its answer to the port.
Threads flush it themselves; tasks leave it to one flush for all that end in the same turn of the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading

from . import codec, script
from .event_loop import event_loop
from .reply import failure, success
from .serve import ScriptWorker, WorkerCall, current, log_traceback, may_be_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, NoReturn

_BATCH = 16
"""How many answers of inline calls are sent together, so that the host works on them while others run here."""


class ConcurrentServer:
    """Serves until the input ends. `limit` is for threads; for tasks the host keeps to it."""

    def __init__(self, worker: ScriptWorker, limit: int) -> None:
        self._worker = worker
        self._port = worker.port
        self._limit = limit
        self._loop = event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._threads = 0
        self._queue: queue.SimpleQueue[tuple[contextvars.Context, WorkerCall]] = queue.SimpleQueue()
        self._waiting: dict[int, WorkerCall] = {}
        """Calls that no thread has started. Whoever pops one, a thread or a cancellation, owns it."""
        self._threaded: dict[int, WorkerCall] = {}
        """All calls that need a thread."""
        self._has_flush = False
        self._unsent = 0
        self._has_tried_orjson = False
        self._is_inline: dict[Any, bool] = {}

    def serve(self) -> NoReturn:
        self._loop.add_reader(self._port.requests, self._read)
        while True:  # a tool may stop the loop
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                continue  # raised by a task that a tool started; whoever awaits that task gets it too

    def _read(self) -> None:
        for line in self._port.lines():
            call = self._worker.accept(line, self._cancel) if line else None
            if call is None:
                continue
            function = self._worker.functions[str(call.function)]
            if self._runs_inline(function):
                contextvars.copy_context().run(self._run_inline, call)
            elif script.is_async(function):
                self._start_task(call, self._run_async(call))
            else:
                self._start_threaded(call)

    def _cancel(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()
            return
        call = self._waiting.pop(number, None)
        if call is not None:
            self._threaded.pop(number, None)
            self._worker.refuse(call, asyncio.CancelledError())

    # Async functions.

    def _start_task(self, call: WorkerCall, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks[call.id] = task
        task.add_done_callback(lambda task: self._end_task(call, task))

    def _runs_inline(self, function: Any) -> bool:
        """Whether it is a coroutine function that awaits nothing: it needs no task."""
        known = self._is_inline.get(function)
        if known is None:
            code = getattr(function, "__code__", None)
            is_coroutine = code is not None and code.co_flags & 0x80  # inspect.CO_COROUTINE
            known = self._is_inline[function] = bool(is_coroutine) and not _awaits(code)
        return known

    def _run_inline(self, call: WorkerCall) -> None:
        current.set(call)
        try:
            coroutine = self._worker.functions[str(call.function)](**self._worker.arguments(call))
            coroutine.send(None)
            coroutine.close()
            raise RuntimeError("the function is suspended, although it awaits nothing")
        except StopIteration as stop:
            is_awaitable = hasattr(type(stop.value), "__await__")
            if is_awaitable or may_be_stream(stop.value):
                rest = stop.value if is_awaitable else _collected(stop.value)
                self._start_task(call, self._finish(call, rest))
                return
            self._port.post(call, success(call, stop.value), last=True)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is an answer, SystemExit too
            log_traceback(call, error)
            self._port.post(call, failure(call, error), last=True)
        self._unsent += 1
        if self._unsent == _BATCH:
            self._flush()
        else:
            self._flush_soon()

    async def _run_async(self, call: WorkerCall) -> None:
        current.set(call)
        await self._answer(call, self._worker.functions[str(call.function)](**self._worker.arguments(call)))

    async def _finish(self, call: WorkerCall, awaitable: Awaitable[Any]) -> None:
        """Await what a function has returned without awaiting it."""
        current.set(call)
        await self._answer(call, awaitable)

    async def _answer(self, call: WorkerCall, awaitable: Awaitable[Any]) -> None:
        result = await awaitable
        while hasattr(type(result), "__await__"):
            result = await result
        if may_be_stream(result):
            result = await _collected(result)
        self._port.post(call, success(call, result), last=True)

    def _end_task(self, call: WorkerCall, task: asyncio.Task[None]) -> None:
        self._tasks.pop(call.id, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            log_traceback(call, error)
            self._port.post(call, failure(call, error), last=True)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._has_flush:
            self._has_flush = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._has_flush = False
        self._unsent = 0
        self._port.flush()
        if not self._has_tried_orjson:
            self._has_tried_orjson = True
            codec.use_orjson()

    # Other functions.

    def _start_threaded(self, call: WorkerCall) -> None:
        self._waiting[call.id] = self._threaded[call.id] = call
        if self._threads < min(self._limit, len(self._threaded)):
            self._threads += 1
            threading.Thread(target=self._work, name=f"call-{self._threads}", daemon=True).start()
        self._queue.put((contextvars.copy_context(), call))

    def _work(self) -> None:
        while True:
            context, call = self._queue.get()
            if self._waiting.pop(call.id, None) is not None:
                context.run(self._run, call)

    def _run(self, call: WorkerCall) -> None:
        current.set(call)
        caught: BaseException | None = None
        try:
            result = self._worker.functions[str(call.function)](**self._worker.arguments(call))
            if may_be_stream(result):
                from . import stream

                result = stream.collect_blocking(result)
            if hasattr(type(result), "__await__"):
                self._loop.call_soon_threadsafe(self._start_task, call, self._finish(call, result))
                self._threaded.pop(call.id, None)
                return
            data = success(call, result)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is an answer, SystemExit too
            data, caught = failure(call, error), error
        self._threaded.pop(call.id, None)
        if caught is not None:
            log_traceback(call, caught)
        self._port.post(call, data, last=True)
        self._port.flush()


async def _collected(result: Any) -> Any:
    from . import stream

    return await stream.collect_async(result) if stream.is_stream(result) else result


def _awaits(code: Any) -> bool:
    import dis

    return any(it.opname in ("GET_AWAITABLE", "GET_ANEXT", "YIELD_FROM", "SEND") for it in dis.get_instructions(code))
