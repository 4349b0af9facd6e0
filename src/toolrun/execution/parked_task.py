"""Runs a coroutine in a task of its own, and pays for the task only when the coroutine suspends.

A call must be answered at its deadline even if the tool swallows its cancellation, so the tool cannot run in the
caller's task. A task for each call costs several times what everything else does, and many tools that are async never
suspend. So the first step runs at once, on the caller's stack, but under the identity of a task that is parked for the
purpose: `asyncio.current_task()`, timeouts, task groups and cancel scopes inside the coroutine see that task. If the
coroutine ends there, the parked task stays for the next call. If it suspends, the parked task takes over and drives it
to its end. Context variables are the coroutine's own copy throughout.

A coroutine may pass its task on before it ends (`call_soon(current_task().cancel)`, a weak key, a callback). Such a
task ends with its coroutine, as any task does, and carries no other call. Whoever knows a task holds a reference to it,
so references are counted.

Python 3.12 has `asyncio.Task(eager_start=True)` for the same purpose; this module can go when 3.11 does.
Entering and leaving tasks is what asyncio documents for implementations of tasks (`asyncio._enter_task`).
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from inspect import isawaitable
from sys import getrefcount
from types import CoroutineType, TracebackType
from typing import Any, Final
from weakref import getweakrefcount

from toolrun.execution.body import Outcome
from toolrun.tools.context import Call, OnLateEnd, current_call

_NOTHING: Final = object()


class ParkedTask(Coroutine[object, object, None]):
    """A task that is parked until it is given a coroutine. It is itself what that task runs."""

    __name__ = "tool_call"  # for whoever prints the task
    __slots__ = (
        "__weakref__",
        "_context",
        "_live",
        "_loop",
        "_weak_references",
        "_yielded",
        "coroutine",
        "on_end",
        "on_late_end",
        "outcome",
        "task",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.coroutine: Coroutine[Any, Any, object] | None = None
        self._context: Context | None = None
        self._yielded: object = _NOTHING
        self._live: dict[ParkedTask, None] | None = None
        self.on_end: Callable[[], object] | None = None
        """Called when the coroutine has ended, however long after the answer."""
        self.on_late_end: OnLateEnd | None = None
        """Called with its outcome, if the call was answered before."""
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        """While parked: what the task waits for. Afterwards: what the caller waits for."""
        self.task: asyncio.Task[None] | None = loop.create_task(self)
        """None once the coroutine has ended: task and coroutine would keep each other until the next collection."""
        self._weak_references = getweakrefcount(self.task)  # those of asyncio itself
        # A parked task holds nothing that would be lost if the loop is closed under it.
        self.task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does; not in typeshed

    def resume(self, context: Context, yielded: object, live: dict[ParkedTask, None]) -> None:
        """Go on with the coroutine, which has just suspended on `yielded`. Stays in `live` until it has ended."""
        self._context, self._yielded, self._live = context, yielded, live
        live[self] = None
        parked, self.outcome = self.outcome, self._loop.create_future()
        if not parked.done():
            parked.set_result((None, None))

    def is_known(self, task: asyncio.Task[None]) -> bool:
        """Whether somebody has a weak reference to the task, or waits for its end."""
        return getweakrefcount(task) > self._weak_references or bool(task._callbacks)

    def retire(self) -> None:
        """End the task, which has nothing to carry."""
        if not self.outcome.done():
            self.outcome.set_result((None, None))

    def give_up(self) -> None:
        """Cancel the coroutine. It may take its time, or ignore it."""
        if self.task is not None:
            self.task.cancel()

    def send(self, value: object) -> object:
        if self.coroutine is None or self._live is None:
            return self.outcome.__await__().send(None)
        if self._yielded is not _NOTHING:
            yielded, self._yielded = self._yielded, _NOTHING
            return yielded
        return self._step(self.coroutine.send, value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> object:
        error = typ if isinstance(typ, BaseException) else val if isinstance(val, BaseException) else typ()
        if self.coroutine is None or self._live is None:
            raise error
        self._yielded = _NOTHING
        return self._step(self.coroutine.throw, error)

    def close(self) -> None:
        if self.coroutine is not None and self._live is not None:
            self.coroutine.close()

    def __await__(self) -> Generator[Any, None, None]:
        raise TypeError("a parked task is driven by its own task")

    def _step(self, resume: Callable[[Any], object], argument: object) -> object:
        assert self._context is not None
        outcome: Outcome
        try:
            return self._context.run(resume, argument)
        except StopIteration as stop:
            outcome = (stop.value, None)
        except BaseException as error:  # noqa: BLE001  also SystemExit and KeyboardInterrupt must not end the loop
            outcome = (None, error)
        if not self.outcome.done():
            self.outcome.set_result(outcome)
        elif self.on_late_end is not None:
            self.on_late_end(*outcome)
        assert self._live is not None
        del self._live[self]
        self.task = None
        if self.on_end is not None:
            self.on_end()
        raise StopIteration


class ParkedTasks:
    """The parked tasks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parked: list[ParkedTask] = []
        self.live: dict[ParkedTask, None] = {}
        """Those that carry a coroutine, the ones that were given up included."""

    def start(self, function: Callable[[Any], object], argument: object, call: Call | None) -> Outcome | ParkedTask:
        """Call `function`, and if it makes a coroutine run that up to its first suspension.

        Returns the outcome, or, if the coroutine has suspended, the parked task that goes on with it.
        """
        loop = self._loop
        parked = self._take()
        task = parked.task
        assert task is not None  # it has carried nothing to its end
        references = getrefcount(task)
        context = copy_context()
        caller = current_task(loop)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, task)
        try:
            value = context.run(_first_step, parked, function, argument, call)
        except StopIteration as stop:
            outcome: Outcome = (stop.value, None)
        except BaseException as error:  # noqa: BLE001  whatever it raises is its outcome
            outcome = (None, error)
        else:
            if parked.coroutine is not None:
                parked.resume(context, value, self.live)
                return parked
            outcome = (value, None)
        finally:
            _leave_task(loop, task)
            if caller is not None:
                _enter_task(loop, caller)
        parked.coroutine = None
        if getrefcount(task) > references or task.cancelling() or parked.is_known(task):
            parked.retire()
        else:
            self._parked.append(parked)
        return outcome

    def complete(self, function: Callable[[Any], object], call: Call) -> Outcome:
        """`complete` for a function that might get hold of the task that it runs in: not of its caller's."""
        loop = self._loop
        parked = self._take()
        task = parked.task
        assert task is not None  # as above
        references = getrefcount(task)
        caller = current_task(loop)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, task)
        try:
            outcome = complete(function, call)
        finally:
            _leave_task(loop, task)
            if caller is not None:
                _enter_task(loop, caller)
        if getrefcount(task) > references or task.cancelling() or parked.is_known(task):
            parked.retire()
        else:
            self._parked.append(parked)
        return outcome

    def _take(self) -> ParkedTask:
        while self._parked:
            parked = self._parked.pop()
            if parked.task is not None and not parked.task.cancelling():  # by whoever cancels all tasks of a loop
                return parked
        return ParkedTask(self._loop)

    async def close(self, grace: float) -> None:
        """Cancel everything and wait up to `grace` seconds for it to end."""
        tasks = [parked.task for parked in (*self._parked, *self.live) if parked.task is not None]
        self._parked.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)


def complete(function: Callable[[Any], object], call: Call) -> Outcome:
    """Call a function that is known not to suspend, here and now. To be run in a context of its own."""
    current_call.set(call)
    try:
        value = function(call.arguments)
        if type(value) is not CoroutineType:
            return value, None
    except BaseException as error:  # noqa: BLE001  whatever it raises is its outcome
        return None, error
    try:
        value.send(None)
    except StopIteration as stop:
        return stop.value, None
    except BaseException as error:  # noqa: BLE001  whatever it raises is its outcome
        return None, error
    value.close()
    return None, RuntimeError("a tool that runs inline must not wait for anything")


def _first_step(parked: ParkedTask, function: Callable[[Any], object], argument: object, call: Call | None) -> object:
    current_call.set(call)
    try:
        value = function(argument)
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error  # as Python does for a coroutine
    if type(value) is CoroutineType:
        parked.coroutine = value
        return value.send(None)
    if isawaitable(value):
        parked.coroutine = coroutine = _awaited(value)
        return coroutine.send(None)
    return value


async def _awaited(value: Awaitable[object]) -> object:
    return await value
