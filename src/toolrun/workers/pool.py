"""The workers of one script: started when a call needs one, used again, replaced when they die or hang.

Knows calls, workers and time; knows nothing of environments, processes or pipes. Belongs to one event loop.

A call that is given up (its deadline, or its caller) takes its worker with it, because nothing else is sure to stop it.
If other calls run in that worker, it gets no new ones and is killed when they have ended.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

from toolrun.context import OnProgress
from toolrun.errors import CallError, ProtocolError, SideEffects, UnavailableError, WorkerLostError
from toolrun.settings import JSON
from toolrun.workers.breaker import Breaker
from toolrun.workers.engine import Engine, WorkerSpec
from toolrun.workers.member import Answered, Finish, Member, State
from toolrun.workers.wire import encode_request

logger = logging.getLogger("toolrun.worker")

_NUMBERS: Final = itertools.count(1)


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


@dataclass(slots=True)
class Request:
    """A value, although not frozen: there is one for each call, and a frozen one takes three times as long to make."""

    function: str
    kwargs: Mapping[str, JSON]
    config: Mapping[str, JSON]
    secrets: Mapping[str, str]
    on_progress: OnProgress | None = None
    on_sent: Callable[[], None] | None = None
    """Told when the worker may have begun: from then on the call may have had effects."""


class Ticket:
    """A request that was sent."""

    __slots__ = ("_member", "_number", "_pool")

    def __init__(self, pool: Pool, member: Member, number: int) -> None:
        self._pool = pool
        self._member = member
        self._number = number

    def give_up(self) -> None:
        self._pool.give_up(self._member, self._number)


class RetiredError(UnavailableError):
    """The pool takes no more calls, because another has taken its place."""

    side_effects = SideEffects.NOT_STARTED


class Pool:
    """Runs requests in workers."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        make_spec: Callable[[], Awaitable[WorkerSpec]],
        limits: PoolLimits = PoolLimits(),  # noqa: B008  frozen, so one for all is fine
    ) -> None:
        self.name = name
        self.limits = limits
        self._engine = engine
        self._make_spec = make_spec
        self._members: list[Member] = []
        self._waiting: deque[asyncio.Future[Member]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._breaker = Breaker()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._drained: asyncio.Future[None] | None = None

    def submit(self, request: Request, finish: Finish) -> Ticket | None:
        """Send a request to a worker that is free now; None if none is. `finish` is told how it ended."""
        member = self._free_member()
        return None if member is None else self._send(member, request, finish)

    async def run(self, request: Request) -> Answered:
        """The answer of a worker, as soon as one is free. Raises CallError if there is none.

        Cancelled, it kills the worker.
        """
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()

        def finish(outcome: Answered | CallError) -> None:
            if not future.done():
                future.set_result(outcome) if isinstance(outcome, Answered) else future.set_exception(outcome)

        ticket = self.submit(request, finish)
        while ticket is None:
            member = await self._wait_for_member()
            if member.state is State.ENDED:  # it may die between being handed out and being used
                member.load -= 1
            else:
                ticket = self._send(member, request, finish)
        try:
            return await future
        except asyncio.CancelledError:
            ticket.give_up()
            raise

    def _send(self, member: Member, request: Request, finish: Finish) -> Ticket:
        number = next(_NUMBERS)

        def end(outcome: Answered | CallError) -> None:
            if isinstance(outcome, Answered):
                self._breaker.worked()
                self._release(member)
            else:
                member.load -= 1
                self._hand_out()
            finish(outcome)

        try:
            data = encode_request(number, request.function, request.kwargs, request.config, request.secrets)
        except TypeError as error:
            self._release(member)
            finish(ProtocolError(f"The arguments cannot be sent: {error}", side_effects=SideEffects.NOT_STARTED))
        else:
            member.begin(number, data, request.on_progress, end)
            if request.on_sent is not None:
                request.on_sent()
        return Ticket(self, member, number)

    def members(self) -> list[Member]:
        return list(self._members)

    async def close(self, drain: float = 0.0) -> None:
        """Refuse new calls, let running ones end for up to `drain` seconds, then end all workers."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._fail_waiting(UnavailableError(f"'{self.name}' is shutting down.", side_effects=SideEffects.NOT_STARTED))
        for task in self._starting:
            task.cancel()
        if drain > 0 and any(member.load for member in self._members):
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=drain)
        for member in list(self._members):
            self._end(member)
        pending = [*self._starting, *self._ending]
        if pending:
            await asyncio.wait(pending, timeout=self.limits.grace + 5)

    def retire(self) -> None:
        """No new calls from now on, also not those that wait; each worker ends when its last call has."""
        self._closed = True
        self._fail_waiting(RetiredError(f"'{self.name}' was replaced."))
        for task in self._starting:
            task.cancel()
        for member in list(self._members):
            if member.state is State.READY:
                member.state = State.RETIRING
            self._end_if_unused(member)

    def _free_member(self) -> Member | None:
        self._check_open()
        if self._waiting:  # those who wait come first
            return None
        for member in self._members:
            if member.is_free(self.limits.concurrency):
                member.load += 1
                return member
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError(f"'{self.name}' is shutting down.", side_effects=SideEffects.NOT_STARTED)
        seconds = self._breaker.open_for(monotonic())
        if seconds and not any(member.state is State.READY for member in self._members):
            raise UnavailableError(
                f"The worker of '{self.name}' keeps dying; it is tried again in {seconds:.0f} s.",
                side_effects=SideEffects.NOT_STARTED,
            )

    async def _wait_for_member(self) -> Member:
        self._check_open()
        turn: asyncio.Future[Member] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._grow()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release(turn.result())  # its turn came in the same moment
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _grow(self) -> None:
        """Start a worker if those who wait are more than the workers on their way can serve."""
        ready = sum(1 for member in self._members if member.state is State.READY)
        on_their_way = len(self._starting) * self.limits.concurrency
        if len(self._waiting) > on_their_way and ready + len(self._starting) < self.limits.max_workers:
            task = asyncio.get_running_loop().create_task(self._start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self) -> None:
        member: Member | None = None
        try:
            await asyncio.sleep(self._breaker.wait(monotonic()))
            spec = await self._make_spec()
            member = Member(self.name, self._on_end, monotonic())
            self._members.append(member)
            member.worker = self._engine.start(spec, member)
            async with asyncio.timeout(self.limits.start_timeout):
                await member.ready
        except (CallError, OSError) as error:  # TimeoutError is an OSError
            if member is not None:  # else there is no environment, which says nothing of the script
                if member in self._members:  # else its death has been counted
                    self._breaker.died(monotonic())
                self._discard(member)
            failure = self._start_failure(error)
            if not any(it.state is State.READY for it in self._members):
                self._fail_waiting(failure)
            return
        except asyncio.CancelledError:
            if member is not None:
                self._discard(member)
            raise
        task = asyncio.current_task()
        assert task is not None
        self._starting.discard(task)  # now: if its worker has died already, those who wait need another
        self._hand_out()
        self._schedule_idle_check()

    def _start_failure(self, error: CallError | OSError) -> CallError:
        if isinstance(error, CallError):
            return error
        if isinstance(error, TimeoutError):
            return UnavailableError(
                f"The worker of '{self.name}' was not ready within {self.limits.start_timeout:g} s.",
                side_effects=SideEffects.NOT_STARTED,
            )
        return UnavailableError(
            f"The worker of '{self.name}' cannot be started: {error}", side_effects=SideEffects.NOT_STARTED
        )

    def _discard(self, member: Member) -> None:
        """Of a start that failed: whatever there is of the worker goes."""
        if member in self._members:
            self._members.remove(member)
        member.state = State.ENDED
        if member.worker is not None:
            member.worker.kill()

    def _hand_out(self) -> None:
        if self._drained is not None and not self._drained.done() and not any(it.load for it in self._members):
            self._drained.set_result(None)
        for member in self._members:
            while self._waiting and member.is_free(self.limits.concurrency):
                turn = self._waiting.popleft()
                if not turn.done():
                    member.load += 1
                    turn.set_result(member)
        if self._waiting:
            self._grow()

    def _fail_waiting(self, error: CallError) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(error)

    def _release(self, member: Member) -> None:
        member.load -= 1
        member.calls += 1
        member.last_used = now = monotonic()
        if member.state is State.READY and self._is_worn_out(member, now):
            member.state = State.RETIRING
        self._end_if_unused(member)
        self._hand_out()

    def _is_worn_out(self, member: Member, now: float) -> bool:
        limits = self.limits
        if limits.max_calls is not None and member.calls >= limits.max_calls:
            return True
        if limits.max_age is not None and now - member.born >= limits.max_age:
            return True
        if limits.max_memory is None or member.worker is None:
            return False
        memory = member.worker.describe().memory
        return memory is not None and memory >= limits.max_memory

    def give_up(self, member: Member, number: int) -> None:
        """Nobody waits for this call any more, so it must not go on."""
        if not member.forget(number):
            return
        member.load -= 1
        member.must_be_killed = True
        if member.state is State.READY:
            member.state = State.RETIRING
        self._end_if_unused(member)
        self._hand_out()

    def _end_if_unused(self, member: Member) -> None:
        if member.state is State.RETIRING and member.load == 0:
            self._end(member)

    def _end(self, member: Member) -> None:
        if member not in self._members:
            return
        self._members.remove(member)
        member.state = State.ENDED
        assert member.worker is not None
        if member.must_be_killed or member.load:
            member.worker.kill()
        task = asyncio.get_running_loop().create_task(member.worker.close(self.limits.grace))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _on_end(self, member: Member, lost: WorkerLostError) -> None:
        """The worker has died. Its calls have their answers already."""
        if member in self._members:
            self._members.remove(member)
            self._breaker.died(monotonic())
            logger.warning("%s: %s", self.name, lost)
        self._hand_out()

    def _schedule_idle_check(self) -> None:
        if self._idle_timer is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self.limits.idle_timeout, self._end_idle)

    def _end_idle(self) -> None:
        self._idle_timer = None
        now = monotonic()
        for member in list(self._members):
            unused = member.state is State.READY and not member.load
            if unused and now - member.last_used >= self.limits.idle_timeout:
                self._end(member)
        oldest = min((member.last_used for member in self._members), default=None)
        if oldest is not None and not self._closed:
            delay = max(0.01, oldest + self.limits.idle_timeout - now)
            self._idle_timer = asyncio.get_running_loop().call_later(delay, self._end_idle)
