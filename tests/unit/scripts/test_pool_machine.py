"""The pool under any sequence of calls, answers, deaths and edits, against a model of what must come of each call.

The test is the worker and the clock. A worker that is killed or closed ends only when the machine says so, as a real
one does, and may go on talking until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from toolrun.errors import CallError, ProtocolError, SideEffects, WorkerLostError
from toolrun.json import JSON
from toolrun.processes.engine import ProcessSpec
from toolrun.result import Large
from toolrun.scripts.pool import Pool
from toolrun.scripts.pool_state import PoolLimits
from toolrun.scripts.request import Request
from toolrun.testing import MemoryEngine, MemoryWorker

SPEC = ProcessSpec("script", Path("python"), (), Path())
START_TIMEOUT = 10.0


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """Time passes when the test says so."""

    now = 1000.0

    def time(self) -> float:
        return self.now


@dataclass(eq=False)
class Expected:
    """A call, and what the model knows of it."""

    token: int
    pool: Pool
    task: asyncio.Task[JSON | Large]
    worker: MemoryWorker | None = None
    """Where it was sent, if it was."""
    fate: type[BaseException] | None = None
    """What ended it, if it was sent and nobody answered it."""
    answered: bool = False

    @property
    def is_running(self) -> bool:
        return self.worker is not None and not self.answered and self.fate is None


class PoolMachine(RuleBasedStateMachine):
    calls: Bundle[Expected] = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.loop = FakeTimeLoop()
        self.clock = patch("toolrun.scripts.pool.monotonic", self.loop.time)
        self.clock.start()
        self.engine = MemoryEngine(ready=False, lingers=True)
        self.expected: list[Expected] = []
        self.rubbish: set[MemoryWorker] = set()
        self.retired: list[Pool] = []
        self.closing: dict[Pool, asyncio.Task[None]] = {}
        self.limits = PoolLimits()

    @initialize(concurrency=st.integers(1, 3), max_workers=st.integers(1, 3), max_calls=st.none() | st.integers(1, 3))
    def open(self, concurrency: int, max_workers: int, max_calls: int | None) -> None:
        self.limits = PoolLimits(
            concurrency=concurrency, max_workers=max_workers, max_calls=max_calls, start_timeout=START_TIMEOUT
        )
        self.pool = self._new_pool()

    # What callers do.

    @rule(target=calls)
    def call(self) -> Expected:
        call = self._call()
        self._run_until_idle()
        return call

    @rule(count=st.integers(2, 5))
    def call_many_at_once(self, count: int) -> None:
        for _ in range(count):
            self._call()
        self._run_until_idle()

    @rule(call=calls)
    def cancel(self, call: Expected) -> None:
        if not call.task.done():
            call.task.cancel()
            call.fate = asyncio.CancelledError
            self._run_until_idle()

    @rule()
    def edit(self) -> None:
        self._run_until_idle(self._edit)

    @rule(drain=st.sampled_from([0.0, 3.0]))
    def close(self, drain: float) -> None:
        self._run_until_idle(lambda: self._close(drain))

    # What workers do.

    @precondition(lambda self: self._starting())
    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        self._run_until_idle(data.draw(st.sampled_from(self._starting())).be_ready)

    @precondition(lambda self: self._starting())
    @rule(data=st.data())
    def fail_to_load(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self._starting()))
        self._run_until_idle(lambda: worker.say(ready={"error": "SyntaxError"}))

    @precondition(lambda self: self._running())
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self._running()))
        self._run_until_idle(lambda: self._answer(call))

    @precondition(lambda self: self._alive())
    @rule(data=st.data(), number=st.integers(-5, 5))
    def answer_no_call(self, data: st.DataObject, number: int) -> None:
        worker = data.draw(st.sampled_from(self._alive()))
        stray = b'{"id":%d,"result":"stray","error":null}\n' % (number - 1_000_000)
        self._run_until_idle(lambda: self._talk_rubbish(worker, stray))

    @precondition(lambda self: any(worker.requests for worker in self._alive()))
    @rule(data=st.data())
    def answer_again_or_too_late(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([it for it in self._alive() if it.requests]))
        done = {it.token for it in self.expected if not it.is_running}
        late = [request["id"] for request in worker.requests if request["kwargs"]["token"] in done]

        def answer_late() -> None:
            for number in late:
                worker.say(id=number, result="late", error=None)

        self._run_until_idle(answer_late)

    @precondition(lambda self: self._alive())
    @rule(data=st.data(), code=st.sampled_from([0, 3, -9, -11]))
    def die(self, data: st.DataObject, code: int) -> None:
        worker = data.draw(st.sampled_from(self._alive()))
        self._run_until_idle(lambda: worker.end(code))

    @precondition(lambda self: self._alive())
    @rule(data=st.data())
    def talk_rubbish(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self._alive()))
        self._run_until_idle(lambda: self._talk_rubbish(worker))

    @precondition(lambda self: self._starting() or self._running())
    @rule(data=st.data(), turns=st.integers(0, 2), event=st.sampled_from(["cancel", "die", "rubbish", "edit", "close"]))
    def race(self, data: st.DataObject, turns: int, event: str) -> None:
        """A worker becomes free, and something happens before the next call gets to use it."""
        starting, running = self._starting(), self._running()
        busy: list[MemoryWorker | Expected] = [*starting, *running]
        first = data.draw(st.sampled_from(busy))
        pending: list[Expected | None] = [call for call in self.expected if not call.task.done()]
        victim = data.draw(st.sampled_from(pending or [None]))

        async def happen() -> None:
            if isinstance(first, MemoryWorker):
                first.be_ready()
            else:
                self._answer(first)
            for _ in range(turns):
                await asyncio.sleep(0)
            worker = first if isinstance(first, MemoryWorker) else first.worker
            assert worker is not None
            if event == "cancel" and victim is not None and victim.task.cancel():
                victim.answered, victim.fate = False, asyncio.CancelledError
            elif event == "die":
                worker.end(-9)
            elif event == "rubbish" and not worker.ended:
                self._talk_rubbish(worker)
            elif event == "edit":
                self._edit()
            elif event == "close":
                self._close(0.0)

        self.loop.run_until_complete(happen())
        self._run_until_idle()

    @rule(seconds=st.sampled_from([0.5, 5.0, START_TIMEOUT + 1, 31.0, 700.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.loop.now += seconds
        self._run_until_idle()

    # What must hold.

    @invariant()
    def no_call_is_sent_twice(self) -> None:
        sent = [request["kwargs"]["token"] for worker in self.engine.workers for request in worker.requests]
        assert len(sent) == len(set(sent))

    @invariant()
    def every_call_has_the_answer_that_is_its_own(self) -> None:
        for call in self.expected:
            if call.answered:
                assert call.task.result() == call.token
            elif call.fate is asyncio.CancelledError:
                assert call.task.cancelled()
            elif call.fate is not None:
                error = call.task.exception()
                assert type(error) is call.fate, error
                assert isinstance(error, CallError)
                assert error.side_effects is SideEffects.UNKNOWN
            elif call.task.done():
                assert call.worker is None, "it was sent, nothing has happened to it, and yet it has ended"
                error = call.task.exception()
                assert isinstance(error, CallError)
                assert error.side_effects is SideEffects.NOT_STARTED

    @invariant()
    def loads_are_the_calls_that_run(self) -> None:
        for pool in self._pools():
            running = [call for call in self._running() if call.pool is pool]
            assert sum(worker.load for worker in pool.workers) == len(running)
            assert all(0 <= worker.load <= self.limits.concurrency for worker in pool.workers)

    @invariant()
    def there_are_at_most_max_workers_that_get_calls(self) -> None:
        """Besides those that nothing is sent to any more, and that end after their last call."""
        for pool in self._pools():
            alive = {id(worker.listener) for worker in self._alive()}
            mine = [worker for worker in pool.workers if id(worker) in alive]
            open_to_calls = [worker for worker in mine if worker.state.value in ("starting", "ready")]
            assert len(open_to_calls) <= self.limits.max_workers

    @invariant()
    def a_worker_is_killed_only_with_all_its_calls(self) -> None:
        for call in self._running():
            assert call.worker is not None
            assert not call.worker.killed
            assert not call.worker.closed

    @invariant()
    def an_edited_script_has_no_worker_without_a_call(self) -> None:
        busy = {id(call.worker) for call in self._running()}
        for pool in self.retired:
            mine = [worker for worker in self._alive() if worker.listener in pool.workers]
            assert all(id(worker) in busy or worker.killed for worker in mine)

    def teardown(self) -> None:
        """Whatever state it is in: calls that can be answered are, and after closing nothing is left."""
        try:
            for _ in range(10 + 2 * len(self.expected)):
                self._run_until_idle(self._be_all_ready)
                self._run_until_idle(self._answer_all)
                self._run_until_idle(self._end_killed_and_closed)
                self.loop.now += 1
                self._run_until_idle()
                if all(call.task.done() for call in self.expected):
                    break
            self.every_call_has_the_answer_that_is_its_own()
            assert all(call.task.done() for call in self.expected), "a call was never answered"
            for pool in (*self.retired, self.pool):
                self.closing[pool] = self.loop.create_task(pool.close())
            self._run_until_idle()
            self._run_until_idle(self._end_killed_and_closed)
            assert all(task.done() for task in self.closing.values())
            assert not self._alive()
            left = asyncio.all_tasks(self.loop)
            assert not left, left
        finally:
            self.clock.stop()
            self.loop.close()

    # The machine's own.

    def _new_pool(self) -> Pool:
        async def make_spec() -> ProcessSpec:
            await asyncio.sleep(0)
            return SPEC

        return Pool("script", self.engine, make_spec, self.limits)

    def _call(self) -> Expected:
        token, pool = len(self.expected), self.pool

        async def run() -> JSON | Large:
            return await pool.run(Request("f", {"token": token}))

        task = self.loop.create_task(run())
        call = Expected(token, self.pool, task)
        self.expected.append(call)
        return call

    def _answer(self, call: Expected) -> None:
        assert call.worker is not None
        number = next(it["id"] for it in call.worker.requests if it["kwargs"]["token"] == call.token)
        call.worker.say(id=number, result=call.token, error=None)
        call.answered = True

    def _be_all_ready(self) -> None:
        for worker in self._starting():
            worker.be_ready()

    def _answer_all(self) -> None:
        for call in self._running():
            self._answer(call)

    def _edit(self) -> None:
        """The script gets a new pool; the old one is left to its calls."""
        self.pool.retire()
        self.retired.append(self.pool)
        self.pool = self._new_pool()

    def _close(self, drain: float) -> None:
        """While calls run and wait; others come to the next pool."""
        self.closing[self.pool] = self.loop.create_task(self.pool.close(drain))
        self.pool = self._new_pool()

    def _talk_rubbish(self, worker: MemoryWorker, line: bytes = b"Traceback (most recent call last):\n") -> None:
        self.rubbish.add(worker)
        worker.listener.received(line)

    def _pools(self) -> list[Pool]:
        return [*self.retired, *self.closing, self.pool]

    def _end_killed_and_closed(self) -> None:
        for worker in self._alive():
            if worker.killed or worker.closed:
                worker.end(0)

    def _run_until_idle(self, action: Callable[[], object] = lambda: None) -> None:
        """Do something, let everything happen that needs no more time, and take note of what became of the calls."""
        self._turn(action)
        if any(call.pool in self.closing and call.worker and call.worker.killed for call in self._running()):
            self._turn(self._end_killed_and_closed)  # closing does not wait for ever: their workers go
        for call in self._running():
            if call.worker in self.rubbish:
                call.fate = ProtocolError
            elif call.worker and call.worker.ended:
                call.fate = WorkerLostError

    def _turn(self, action: Callable[[], object]) -> None:
        async def turns() -> None:
            action()
            for _ in range(12):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())
        by_token = {call.token: call for call in self.expected}
        for worker in self.engine.workers:
            for request in worker.requests:
                by_token[request["kwargs"]["token"]].worker = worker

    def _alive(self) -> list[MemoryWorker]:
        return [worker for worker in self.engine.workers if not worker.ended]

    def _starting(self) -> list[MemoryWorker]:
        return [worker for worker in self._alive() if not worker.is_ready]

    def _running(self) -> list[Expected]:
        return [call for call in self.expected if call.is_running]


PoolMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestPoolMachine = PoolMachine.TestCase
