"""The workers of one script: started when a call needs one, used again, replaced when they die or hang.

Performs what `PoolState` decides. Knows calls, workers and time; knows nothing of environments, processes or pipes.
Belongs to one event loop.

A call that is given up (its deadline, or its caller) takes its worker with it, because nothing else is sure to stop it.
If other calls run in that worker, it gets no new ones and is killed when they have ended; until then the worker is
asked to cancel the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from toolrun.errors import CallError, SideEffects, UnavailableError, WorkerLostError
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.processes.engine import Engine, ProcessSpec
from toolrun.result import Large
from toolrun.scripts.pool_state import (
    Actions,
    Assign,
    EndWorker,
    PoolLimits,
    PoolState,
    Refuse,
    StartWorker,
    WorkerState,
)
from toolrun.scripts.pooled_worker import PooledWorker
from toolrun.scripts.request import Request

logger = get_logger("toolrun.worker")

_Ticket: TypeAlias = "asyncio.Future[PooledWorker]"
T = TypeVar("T")


class RetiredError(UnavailableError):
    """The pool takes no more calls, because another has taken its place."""

    side_effects = SideEffects.NOT_STARTED


class Pool:
    """Runs requests in workers."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        make_spec: Callable[[], Awaitable[ProcessSpec]],
        limits: PoolLimits = PoolLimits(),  # noqa: B008  frozen, so one for all is fine
    ) -> None:
        self.name = name
        self.limits = limits
        self._engine = engine
        self._make_spec = make_spec
        self._state: PoolState[PooledWorker, _Ticket] = PoolState(limits)
        self._acquire = self._state.acquire
        self._starts: set[asyncio.Task[bool]] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drained: asyncio.Future[None] | None = None
        self._on_end: Callable[[Pool], object] | None = None

    @property
    def workers(self) -> list[PooledWorker]:
        return list(self._state.workers)

    @property
    def ready(self) -> list[PooledWorker]:
        """Those that get calls."""
        return [it for it in self._state.workers if it.state is WorkerState.READY]

    @property
    def restarts(self) -> int:
        """How many workers were lost, worn out or replaced so far."""
        return self._state.replaced

    def submit(self, request: Request) -> bool:
        """Send a request to a worker that is free now. False if none is. Raises UnavailableError if none will be."""
        assert self._loop in (None, request.outcome.get_loop()), "a pool belongs to one event loop"
        if self._state.is_closed:
            raise self._shutting_down()
        worker = self._acquire()
        return worker is not None and worker.send(request)

    async def run(self, request: Request) -> JSON | Large:
        """The result of a request, as soon as a worker is free. Raises CallError if there is none.

        Cancelled, it kills the worker.
        """
        is_sent = self.submit(request)
        while not is_sent:
            worker = await self._wait_for_worker()
            if worker.state is WorkerState.ENDED:  # it may die between being handed out and being used
                self._perform(self._state.release(worker))
            else:
                is_sent = worker.send(request)
        try:
            result, error = await request.outcome
        except asyncio.CancelledError:
            request.give_up()
            raise
        if error is not None:
            raise error
        return result

    async def close(self, drain: float = 0.0) -> None:
        """Refuse new calls, let running ones end for up to `drain` seconds, then end all workers."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._perform(self._state.close())
        self._cancel_starts()
        if drain > 0 and any(worker.load for worker in self._state.workers):
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=drain)
        self._perform(self._state.end_all())
        pending: list[asyncio.Task[Any]] = [*self._starts, *self._ends]
        if pending:
            await asyncio.wait(pending, timeout=self.limits.grace + 5)

    def replace(self, worker: PooledWorker, *, is_forced: bool = False) -> None:
        """End a worker when its last call has ended, or now. The next call that needs one starts another."""
        if is_forced or worker.state is not WorkerState.READY:
            self.worker_failed(worker)
            worker.kill()
        else:
            self.worker_outdated(worker)

    def freeze(self) -> None:
        """Start no worker for a call any more: another pool is about to take over."""
        self._state.freeze()

    async def start_worker(self) -> bool:
        """Start one that no call waits for, if there may be one more. False if it cannot be started."""
        self._loop = self._loop or asyncio.get_running_loop()
        if self._state.may_start():
            self._state.starting += 1
            start = self._keep(self._starts, self._start())
            await asyncio.wait([start])
            return not start.cancelled() and start.result()
        return not self._state.is_closed

    def retire(self, on_end: Callable[[Pool], object] = lambda pool: None) -> None:
        """No new calls from now on, also not those that wait; each worker ends when its last call has.

        `on_end` is called when all have ended: nothing keeps the pool any more.
        """
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._on_end = on_end
        self._perform(self._state.retire(), RetiredError(f"'{self.name}' was replaced."))
        self._cancel_starts()
        self._check_end()

    def _check_end(self) -> None:
        if self._on_end is not None and not (self._state.workers or self._starts or self._ends):
            on_end, self._on_end = self._on_end, None
            on_end(self)

    # What a worker tells.

    def worker_loaded(self, worker: PooledWorker) -> None:
        self._state.loaded(worker)

    def worker_outdated(self, worker: PooledWorker) -> None:
        self._perform(self._state.outdated(worker))

    def worker_failed(self, worker: PooledWorker) -> None:
        self._state.failed(worker)

    def worker_ended(self, worker: PooledWorker, lost: WorkerLostError) -> None:
        is_unexpected, actions = self._state.died(worker, monotonic())
        if is_unexpected:
            logger.warning("%s: %s", self.name, lost)
        self._perform(actions)
        self._check_end()

    def call_answered(self, worker: PooledWorker) -> None:
        info = worker.describe() if self.limits.max_memory is not None else None
        actions = self._state.release(worker, monotonic(), None if info is None else info.memory)
        if actions or self._drained is not None:
            self._perform(actions)

    def call_lost(self, worker: PooledWorker) -> None:
        """A call has ended without an answer, and does not run any more."""
        self._perform(self._state.release(worker))

    def call_given_up(self, worker: PooledWorker) -> None:
        """Nobody waits for a call any more, but it may go on in the worker."""
        self._perform(self._state.give_up(worker))

    def _perform(self, actions: Actions[PooledWorker, _Ticket], refusal: CallError | None = None) -> None:
        for action in actions:
            match action:
                case Assign(ticket, worker):
                    if ticket.done():  # its caller has gone away in this moment
                        self._perform(self._state.release(worker))
                    else:
                        ticket.set_result(worker)
                case StartWorker():
                    self._keep(self._starts, self._start())
                case EndWorker(worker, kill):
                    if kill:
                        worker.kill()
                    self._keep(self._ends, worker.close(self.limits.grace))
                case Refuse(tickets):
                    for ticket in tickets:
                        if not ticket.done():
                            ticket.set_exception(refusal or self._shutting_down())
        is_drained = self._drained is not None and not any(worker.load for worker in self._state.workers)
        if is_drained and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _keep(self, tasks: set[asyncio.Task[T]], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        tasks.add(task)

        def on_done(_: asyncio.Task[T]) -> None:
            tasks.discard(task)
            self._check_end()

        task.add_done_callback(on_done)
        return task

    def _cancel_starts(self) -> None:
        for task in self._starts:
            task.cancel()

    def _shutting_down(self) -> UnavailableError:
        return UnavailableError(f"'{self.name}' is shutting down.", side_effects=SideEffects.NOT_STARTED)

    async def _wait_for_worker(self) -> PooledWorker:
        self._loop = asyncio.get_running_loop()
        if self._state.is_closed:
            raise self._shutting_down()
        seconds = self._state.closed_for(monotonic())
        if seconds:
            raise UnavailableError(
                f"The worker of '{self.name}' keeps dying; toolrun tries again in {seconds:.0f} s.",
                side_effects=SideEffects.NOT_STARTED,
            )
        ticket: _Ticket = self._loop.create_future()
        self._perform(self._state.enqueue(ticket))
        try:
            return await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                self._perform(self._state.release(ticket.result()))  # it was handed out at the same moment
            else:
                self._state.withdraw(ticket)
            raise

    async def _start(self) -> bool:
        """Whether there is a worker more."""
        worker: PooledWorker | None = None
        try:
            await asyncio.sleep(self._state.start_delay(monotonic()))
            spec = await self._make_spec()
            worker = PooledWorker(self.name, self, monotonic())
            self._state.add(worker)
            worker.start(self._engine, spec)
            async with asyncio.timeout(self.limits.start_timeout):
                await worker.ready
        except (CallError, OSError) as error:  # TimeoutError is an OSError
            # A script that cannot be loaded will not be by the next worker; a start that failed says nothing of others.
            actions = self._state.start_failed(worker, monotonic(), is_final=not isinstance(error, OSError))
            self._perform(actions, self._start_failure(error))
            if worker is not None:
                worker.kill()
            return False
        except asyncio.CancelledError:
            self._state.start_cancelled(worker)
            if worker is not None:
                worker.kill()
            raise
        self._perform(self._state.started())
        self._schedule_idle_check()
        return True

    def _start_failure(self, error: CallError | OSError) -> CallError:
        if isinstance(error, CallError):
            return error
        reason = f"cannot be started: {error}"
        if isinstance(error, TimeoutError):
            reason = f"was not ready within {self.limits.start_timeout:g} s."
        return UnavailableError(f"The worker of '{self.name}' {reason}", side_effects=SideEffects.NOT_STARTED)

    def _schedule_idle_check(self) -> None:
        due = self._state.next_idle()
        if self._idle_timer is None and not self._state.is_closed and due is not None:
            delay = max(0.01, due - monotonic())
            self._idle_timer = asyncio.get_running_loop().call_later(delay, self._end_idle)

    def _end_idle(self) -> None:
        self._idle_timer = None
        self._perform(self._state.end_idle(monotonic()))
        self._schedule_idle_check()
