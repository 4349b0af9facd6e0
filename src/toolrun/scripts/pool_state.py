"""What a pool decides: which worker gets a call, when one starts and when one ends. Pure: events in, actions out.

Knows neither processes nor pipes nor the event loop. A ticket stands for a call that waits, time is an argument, and
`Pool` performs the actions. The load and the state of a worker change in this file and nowhere else.

    STARTING   has not loaded its script yet
    READY      gets calls
    DRAINING   gets no new calls, and ends when its last one has
    ENDED      gets nothing any more, and is gone or about to go
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from toolrun.scripts.breaker import Breaker


class WorkerState(Enum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    ENDED = "ended"


class Event(Enum):
    LOADED = "loaded"
    GIVEN_UP = "a call was given up"
    WORN_OUT = "worn out"
    RETIRED = "retired"
    EMPTY = "its last call has ended"
    IDLE = "idle"
    FAILED = "failed"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[tuple[WorkerState, Event], WorkerState]] = {
    (WorkerState.STARTING, Event.LOADED): WorkerState.READY,
    (WorkerState.READY, Event.GIVEN_UP): WorkerState.DRAINING,
    (WorkerState.READY, Event.WORN_OUT): WorkerState.DRAINING,
    (WorkerState.READY, Event.RETIRED): WorkerState.DRAINING,
    (WorkerState.DRAINING, Event.EMPTY): WorkerState.ENDED,
    (WorkerState.READY, Event.IDLE): WorkerState.ENDED,
    **{(state, event): WorkerState.ENDED for state in WorkerState for event in (Event.FAILED, Event.CLOSED)},
}
"""Any other pair changes nothing."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many workers there may be, and for how long."""

    concurrency: int = 1
    """Calls that run in one worker at the same time."""
    max_workers: int = 4
    idle_timeout: float = 600.0
    """Seconds without a call after which a worker ends."""
    start_timeout: float = 60.0
    """Seconds that a worker may take until it is ready."""
    max_calls: int | None = None
    max_age: float | None = None
    max_memory: int | None = None
    """After so many calls, seconds or bytes a worker is replaced between two calls."""
    grace: float = 2.0
    """Seconds that a worker has to end by itself."""
    spreads: bool = False
    """Whether a call gets the worker with the least calls, and not the first one with room: they are on machines of
    their own."""

    @property
    def has_wear_limits(self) -> bool:
        """Whether workers are replaced although they work."""
        return (self.max_calls, self.max_age, self.max_memory) != (None, None, None)


class WorkerRecord:
    """What is known of one worker. Read by anybody, changed by `PoolState`."""

    def __init__(self, now: float) -> None:
        self.state = WorkerState.STARTING
        self.load = 0
        """Calls that were assigned to it and have not ended."""
        self.calls = 0
        """Calls that it has answered."""
        self.born = self.last_used = now
        self.must_be_killed = False
        """A call that was given up may still run in it."""
        self.is_lost = False
        """It ended with the machine that it ran on, which says nothing of the script."""


W = TypeVar("W", bound=WorkerRecord)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assign(Generic[W, T]):
    """A call that waited gets this worker, whose load it is already part of."""

    ticket: T
    worker: W


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Calls wait, and another worker may help."""


@dataclass(frozen=True, slots=True)
class EndWorker(Generic[W]):
    """Nothing is sent to it any more: close it, or kill it if a call may still run in it."""

    worker: W
    kill: bool


@dataclass(frozen=True, slots=True)
class Refuse(Generic[T]):
    """These calls waited for nothing."""

    tickets: tuple[T, ...]


Action: TypeAlias = Assign[W, T] | StartWorker | EndWorker[W] | Refuse[T]
Actions: TypeAlias = Sequence[Assign[W, T] | StartWorker | EndWorker[W] | Refuse[T]]


class PoolState(Generic[W, T]):
    """The workers of a pool, the calls that wait for one, and the rules for both."""

    def __init__(self, limits: PoolLimits) -> None:
        self.limits = limits
        self.workers: list[W] = []
        """All but those that were told to end."""
        self.starting = 0
        """Starts that were asked for and have neither succeeded nor failed."""
        self.replaced = 0
        """Workers that died, could not start, wore out or were told to go: not those that were idle."""
        self.is_closed = False
        self._is_frozen = False
        self._concurrency = limits.concurrency
        self._has_wear_limits = limits.has_wear_limits
        self._spreads = limits.spreads
        self._waiting: deque[T] = deque()
        self._breaker = Breaker()

    # Calls.

    def acquire(self) -> W | None:
        """A worker for a call that has just come, if one is free. Those who wait come first."""
        if not self._waiting:
            worker = self._free()
            if worker is not None:
                worker.load += 1
                return worker
        return None

    def _free(self) -> W | None:
        """The worker for the next call, if one has room."""
        found: W | None = None
        for worker in self.workers:
            if worker.load < self._concurrency and worker.state is WorkerState.READY:
                if not self._spreads:
                    return worker
                if found is None or worker.load < found.load:
                    found = worker
        return found

    def enqueue(self, ticket: T) -> Actions[W, T]:
        """A call waits for a worker."""
        self._waiting.append(ticket)
        return self._grow()

    def withdraw(self, ticket: T) -> None:
        """A call does not wait any more."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)

    def release(self, worker: W, now: float | None = None, memory: int | None = None) -> Actions[W, T]:
        """A call has left its worker. `now` says that it was answered, and when; `memory` is what the worker uses."""
        worker.load -= 1
        if now is not None:
            if self._breaker.deaths:
                self._breaker.worked()
            worker.calls += 1
            worker.last_used = now
            if self._has_wear_limits and self._is_worn_out(worker, now, memory):
                _change(worker, Event.WORN_OUT)
        if worker.load == 0 and worker.state is WorkerState.DRAINING:
            return [*self._end(worker, Event.EMPTY), *self._assign()]
        return self._assign() if self._waiting else ()

    def give_up(self, worker: W) -> Actions[W, T]:
        """Nobody waits for a call any more that may go on in the worker."""
        worker.must_be_killed = True
        _change(worker, Event.GIVEN_UP)
        return self.release(worker)

    # Workers.

    def start_delay(self, now: float) -> float:
        """Seconds to wait before a worker is started."""
        return self._breaker.wait(now)

    def closed_for(self, now: float) -> float:
        """Seconds for which no worker is started because they keep dying, and none is there."""
        return 0.0 if self._has(WorkerState.READY) else self._breaker.open_for(now)

    def add(self, worker: W) -> None:
        """The process of a worker is about to start."""
        self.workers.append(worker)

    def loaded(self, worker: W) -> None:
        """The worker has loaded its script."""
        _change(worker, Event.LOADED)

    def started(self) -> Actions[W, T]:
        """A start has succeeded. If its worker has died already, those who wait need another."""
        self.starting -= 1
        return self._assign()

    def start_failed(self, worker: W | None, now: float, *, is_final: bool) -> Actions[W, T]:
        """A start has failed. Final: the next one would fail for the same reason, as with a script that cannot load."""
        self.starting -= 1
        if worker is not None:
            if worker in self.workers:  # otherwise its death has been counted
                self._breaker.died(now)
            self._drop(worker)
        if self._has(WorkerState.READY) or (self.starting and not is_final):
            return ()
        return self._refuse_all()

    def start_cancelled(self, worker: W | None) -> None:
        self.starting -= 1
        if worker is not None:
            self._drop(worker)

    def outdated(self, worker: W) -> Actions[W, T]:
        """The worker is to be replaced: it ends with its last call. One that is starting is, once it is ready."""
        if worker.state is not WorkerState.READY:
            return ()
        _change(worker, Event.RETIRED)
        return [*([] if worker.load else self._end(worker, Event.EMPTY)), *self._assign()]

    def failed(self, worker: W) -> None:
        """The worker cannot be trusted any more. It is still there until it has died."""
        _change(worker, Event.FAILED)

    def died(self, worker: W, now: float) -> tuple[bool, Actions[W, T]]:
        """The process has ended. Whether that was unexpected."""
        is_unexpected = worker in self.workers
        if is_unexpected and not worker.is_lost:
            self._breaker.died(now)
        self._drop(worker)
        return is_unexpected, self._assign()

    def end_idle(self, now: float) -> Actions[W, T]:
        """End the workers that had no call for the idle timeout."""
        latest = now - self.limits.idle_timeout
        idle = [it for it in self.workers if it.state is WorkerState.READY and not it.load and it.last_used <= latest]
        return [action for worker in idle for action in self._end(worker, Event.IDLE)]

    def next_idle(self) -> float | None:
        """When the next worker may have been idle for long enough, if there is one."""
        oldest = min((worker.last_used for worker in self.workers), default=None)
        return None if oldest is None else oldest + self.limits.idle_timeout

    # The pool.

    def freeze(self) -> None:
        """From now on calls start no worker, and wait for those that are there: another pool is about to take over."""
        self._is_frozen = True

    def may_start(self) -> bool:
        """Whether there may be one more worker than those that are ready or on their way."""
        ready = sum(1 for worker in self.workers if worker.state is WorkerState.READY)
        return not self.is_closed and ready + self.starting < self.limits.max_workers

    def close(self) -> Actions[W, T]:
        """No new calls, and none that wait."""
        self.is_closed = True
        return self._refuse_all()

    def retire(self) -> Actions[W, T]:
        """Close, and let each worker end with its last call."""
        actions = list(self.close())
        for worker in list(self.workers):
            _change(worker, Event.RETIRED)
            if worker.load == 0 and worker.state is WorkerState.DRAINING:
                actions += self._end(worker, Event.EMPTY)
        return actions

    def end_all(self) -> Actions[W, T]:
        return [action for worker in list(self.workers) for action in self._end(worker, Event.CLOSED)]

    def _assign(self) -> Actions[W, T]:
        """Give free workers to those who wait, first come, first served; start another if that is not enough."""
        actions: list[Assign[W, T] | StartWorker | EndWorker[W] | Refuse[T]] = []
        while self._waiting and (worker := self._free()) is not None:
            worker.load += 1
            actions.append(Assign(self._waiting.popleft(), worker))
        actions += self._grow()
        return actions

    def _grow(self) -> Actions[W, T]:
        """Start a worker if those who wait are more than the workers on their way can serve."""
        is_short = len(self._waiting) > self.starting * self._concurrency
        if is_short and not self._is_frozen and self.may_start():
            self.starting += 1
            return (StartWorker(),)
        return ()

    def _end(self, worker: W, event: Event) -> Actions[W, T]:
        self.workers.remove(worker)
        self.replaced += event is Event.EMPTY
        _change(worker, event)
        return (EndWorker(worker, kill=worker.must_be_killed or worker.load > 0),)

    def _drop(self, worker: W) -> None:
        if worker in self.workers:
            self.workers.remove(worker)
            self.replaced += 1
        _change(worker, Event.FAILED)

    def _refuse_all(self) -> Actions[W, T]:
        tickets = tuple(self._waiting)
        self._waiting.clear()
        return (Refuse(tickets),) if tickets else ()

    def _has(self, state: WorkerState) -> bool:
        return any(worker.state is state for worker in self.workers)

    def _is_worn_out(self, worker: W, now: float, memory: int | None) -> bool:
        limits = self.limits
        return (
            (limits.max_calls is not None and worker.calls >= limits.max_calls)
            or (limits.max_age is not None and now - worker.born >= limits.max_age)
            or (limits.max_memory is not None and memory is not None and memory >= limits.max_memory)
        )


def _change(worker: WorkerRecord, event: Event) -> None:
    worker.state = TRANSITIONS.get((worker.state, event), worker.state)
