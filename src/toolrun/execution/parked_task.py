"""Runs a coroutine in a task of its own, and pays for the task only when the coroutine suspends.

A call must be answered at its deadline even if the tool swallows its cancellation, so the tool cannot run in the
caller's task. A task for each call costs several times what everything else does, and many tools that are async never
suspend. So the first step runs at once, on the caller's stack, but under the identity of a task that is parked for the
purpose: `asyncio.current_task()`, timeouts, task groups and cancel scopes inside the coroutine see that task. If the
coroutine ends there, the parked task stays for the next call. If it suspends, the parked task takes over and drives it
to its end. Context variables are the coroutine's own copy throughout.

Python 3.12 has `asyncio.Task(eager_start=True)` for the same purpose; this module can go when 3.11 does.
Entering and leaving tasks is what asyncio documents for implementations of tasks (`asyncio._enter_task`).
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from inspect import isawaitable
from types import CoroutineType, TracebackType
from typing import Any, Final

from toolrun.execution.body import Outcome
from toolrun.tools.context import Call, current_call

_NOTHING: Final = object()


class ParkedTask(Coroutine[object, object, None]):
    """A task that is parked until it is given a coroutine. It is itself what that task runs."""

    __name__ = "tool_call"  # for whoever prints the task
    __slots__ = ("__weakref__", "_context", "_live", "_loop", "_yielded", "coroutine", "on_end", "outcome", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.coroutine: Coroutine[Any, Any, object] | None = None
        self._context: Context | None = None
        self._yielded: object = _NOTHING
        self._live: dict[ParkedTask, None] | None = None
        self.on_end: Callable[[], object] | None = None
        """Called when the coroutine has ended, however long after the answer."""
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        """While parked: what the task waits for. Afterwards: what the caller waits for."""
        self.task = loop.create_task(self)
        # A parked task holds nothing that would be lost if the loop is closed under it.
        self.task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does; not in typeshed

    def resume(self, context: Context, yielded: object, live: dict[ParkedTask, None]) -> None:
        """Go on with the coroutine, which has just suspended on `yielded`. Stays in `live` until it has ended."""
        self._context, self._yielded, self._live = context, yielded, live
        live[self] = None
        parked, self.outcome = self.outcome, self._loop.create_future()
        if not parked.done():
            parked.set_result((None, None))

    def give_up(self) -> None:
        """Cancel the coroutine. It may take its time, or ignore it."""
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
        assert self._live is not None
        del self._live[self]
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
        parked = self._parked.pop() if self._parked else ParkedTask(loop)
        task = parked.task
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
        # A coroutine may cancel its own task before it ends; such a task cannot carry anything any more.
        if not task.cancelling():
            parked.coroutine = None
            self._parked.append(parked)
        return outcome

    async def close(self, grace: float) -> None:
        """Cancel everything and wait up to `grace` seconds for it to end."""
        tasks = [parked.task for parked in (*self._parked, *self.live)]
        self._parked.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)


class SelfCancelledError(Exception):
    """A tool that runs inline has cancelled the current task, which is its caller's."""

    def __init__(self, outcome: Outcome, task: asyncio.Task[Any]) -> None:
        super().__init__()
        self.outcome = outcome
        self._task = task

    def __str__(self) -> str:
        return "the tool cancelled the task of its caller"

    async def undo(self) -> Outcome:
        """Take the tool's cancellation back, and give its outcome. Raised if somebody else has cancelled the caller."""
        self._task.uncancel()
        try:
            await asyncio.sleep(0)  # where asyncio delivers the cancellation
        except asyncio.CancelledError:
            if self._task.cancelling():
                raise
        return self.outcome


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


def complete_guarded(function: Callable[[Any], object], call: Call) -> Outcome:
    """`complete` for a function that might cancel the task that it runs in. Takes half a microsecond more."""
    task = current_task()
    before = 0 if task is None else task.cancelling()
    outcome = complete(function, call)
    if task is None or task.cancelling() == before:
        return outcome
    return None, SelfCancelledError(outcome, task)


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
