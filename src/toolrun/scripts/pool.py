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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from toolrun.errors import CallError, ProtocolError, SideEffects, UnavailableError, WorkerLostError
from toolrun.json import JSON
from toolrun.processes.engine import Engine, WorkerSpec
from toolrun.scripts.breaker import Breaker
from toolrun.scripts.pooled_worker import Member, State
from toolrun.scripts.request import Request
from toolrun.scripts.wire import encode_request

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
        self._concurrency = limits.concurrency
        self._wears = (limits.max_calls, limits.max_age, limits.max_memory) != (None, None, None)
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

    def submit(self, request: Request) -> bool:
        """Send a request to a worker that is free now. False if none is. Raises UnavailableError if none will be."""
        if self._closed:
            raise self._shutting_down()
        if not self._waiting:  # those who wait come first
            for member in self._members:
                if member.load < self._concurrency and member.state is State.READY:
                    self._send(member, request)
                    return True
        return False

    async def run(self, request: Request) -> JSON:
        """The result of a request, as soon as a worker is free. Raises CallError if there is none.

        Cancelled, it kills the worker.
        """
        sent = self.submit(request)
        while not sent:
            member = await self._wait_for_member()
            member.load -= 1  # the place that was kept for this request
            if member.state is not State.ENDED:  # it may die between being handed out and being used
                self._send(member, request)
                sent = True
        try:
            result, error = await request.outcome
        except asyncio.CancelledError:
            request.give_up()
            raise
        if error is not None:
            raise error
        return result

    def _send(self, member: Member, request: Request) -> None:
        number = next(_NUMBERS)
        try:
            data = encode_request(number, request.function, request.kwargs, request.config, request.secrets)
        except TypeError as error:
            request.end(
                (None, ProtocolError(f"The arguments cannot be sent: {error}", side_effects=SideEffects.NOT_STARTED))
            )
            self._after_call(member)
            return
        member.load += 1
        member.begin(request, number, data)

    def members(self) -> list[Member]:
        return list(self._members)

    async def close(self, drain: float = 0.0) -> None:
        """Refuse new calls, let running ones end for up to `drain` seconds, then end all workers."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._fail_waiting(self._shutting_down())
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
            self._after_call(member)

    def _check_open(self) -> None:
        if self._closed:
            raise self._shutting_down()
        seconds = self._breaker.open_for(monotonic())
        if seconds and not any(member.state is State.READY for member in self._members):
            raise UnavailableError(
                f"The worker of '{self.name}' keeps dying; it is tried again in {seconds:.0f} s.",
                side_effects=SideEffects.NOT_STARTED,
            )

    def _shutting_down(self) -> UnavailableError:
        return UnavailableError(f"'{self.name}' is shutting down.", side_effects=SideEffects.NOT_STARTED)

    async def _wait_for_member(self) -> Member:
        self._check_open()
        turn: asyncio.Future[Member] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._grow()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                turn.result().load -= 1  # its turn came in the same moment
                self._after_call(turn.result())
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
            member = Member(self.name, self, monotonic())
            self._members.append(member)
            member.worker = self._engine.start(spec, member)
            async with asyncio.timeout(self.limits.start_timeout):
                await member.ready
        except (CallError, OSError) as error:  # TimeoutError is an OSError
            if member is not None:  # else there is no environment, which says nothing of the script
                if member in self._members:  # else its death has been counted
                    self._breaker.died(monotonic())
                self._discard(member)
            # A script that cannot be loaded will not be by the next worker; a start that failed says nothing of others.
            others = isinstance(error, OSError) and self._starting - {asyncio.current_task()}
            if not others and not any(it.state is State.READY for it in self._members):
                self._fail_waiting(self._start_failure(error))
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

    def call_ended(self, member: Member, *, answered: bool) -> None:
        if answered:
            self._breaker.worked()
            member.calls += 1
            member.last_used = now = monotonic()
            if self._wears and member.state is State.READY and self._is_worn_out(member, now):
                member.state = State.RETIRING
        self._after_call(member)

    def _after_call(self, member: Member) -> None:
        if member.state is State.RETIRING and member.load == 0:
            self._end(member)
        if self._waiting or self._drained is not None:
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

    def worker_ended(self, member: Member, lost: WorkerLostError) -> None:
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
