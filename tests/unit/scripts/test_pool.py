"""The pool: which worker gets which call, and what happens to the calls of one that dies. The test is the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from support.waiting import until
from toolrun import SideEffects, ToolExecutor, ToolManager
from toolrun.errors import CallError, ProtocolError, UnavailableError, WorkerLostError
from toolrun.json import JSON
from toolrun.processes.engine import Listener, ProcessSpec
from toolrun.result import Large
from toolrun.scripts.pool import Pool
from toolrun.scripts.pool_state import PoolLimits
from toolrun.scripts.request import Request
from toolrun.testing import MemoryEngine
from toolrun.testing.memory_engine import MemoryWorker
from toolrun.tools.context import Call, Progress

SPEC = ProcessSpec("script", Path("python"), (), Path())
Make = Callable[..., tuple[Pool, MemoryEngine]]


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Make]:
    pools: list[Pool] = []

    def made(engine: MemoryEngine | None = None, **limits: object) -> tuple[Pool, MemoryEngine]:
        engine = engine or MemoryEngine()

        async def spec() -> ProcessSpec:
            return SPEC

        pools.append(Pool("script", engine, spec, PoolLimits(**limits)))  # type: ignore[arg-type]
        return pools[-1], engine

    yield made
    for pool in pools:
        await pool.close()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"the test left tasks behind: {left}"


def request(call: Call | None = None) -> Request:
    return Request("add", {"a": 1}, {"units": "metric"}, {"KEY": "secret"}, call)


async def running(pool: Pool, engine: MemoryEngine, calls: int, workers: int = 1) -> list[asyncio.Task[JSON | Large]]:
    """Calls that have reached their workers."""
    tasks = [asyncio.create_task(pool.run(request())) for _ in range(calls)]
    await until(lambda: len(engine.workers) >= workers and sum(len(it.requests) for it in engine.workers) >= calls)
    return tasks


async def test_the_first_call_starts_a_worker_and_the_next_ones_use_it(make: Make) -> None:
    pool, engine = make()
    for _ in range(3):
        [task] = await running(pool, engine, 1)
        engine.workers[0].answer(result={"sum": 3})
        assert await task == {"sum": 3}
        engine.workers[0].requests.clear()
    assert len(engine.workers) == 1


async def test_a_pool_belongs_to_one_event_loop(make: Make) -> None:
    pool, engine = make()
    for _ in range(2):
        tasks = await running(pool, engine, 1)
        with pytest.raises(AssertionError, match="a pool belongs to one event loop"):
            await asyncio.to_thread(lambda: asyncio.run(run_another(pool)))
        engine.workers[0].answer()
        await tasks[0]
        engine.workers[0].requests.clear()
        with pytest.raises(AssertionError, match="a pool belongs to one event loop"):
            await asyncio.to_thread(lambda: asyncio.run(run_another(pool)))
    assert len(engine.workers) == 1


async def run_another(pool: Pool) -> None:
    await pool.run(request())


async def test_a_request_has_exactly_the_keys_of_the_specification_its_number_and_its_key(make: Make) -> None:
    pool, engine = make()
    [task] = await running(pool, engine, 1)
    [request] = engine.workers[0].requests
    assert set(request) == {"id", "key", "function", "kwargs", "config", "secrets"}
    assert (request["kwargs"], request["config"], request["secrets"]) == (
        {"a": 1},
        {"units": "metric"},
        {"KEY": "secret"},
    )
    engine.workers[0].answer()
    await task


async def test_under_load_there_are_up_to_max_workers_and_the_rest_waits_its_turn(make: Make) -> None:
    pool, engine = make(max_workers=2)
    tasks = [asyncio.create_task(pool.run(request())) for _ in range(5)]
    await until(lambda: sum(len(it.requests) for it in engine.workers) == 2)
    assert len(engine.workers) == 2
    for _ in range(5):
        busy = next(it for it in engine.workers if it.requests)
        busy.answer(0)
        busy.requests.pop(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [await task for task in tasks] == ["done"] * 5
    assert len(engine.workers) == 2


async def test_calls_are_pipelined_to_one_worker_as_far_as_it_declares_and_answers_find_their_calls(make: Make) -> None:
    pool, engine = make(concurrency=8, max_workers=1)
    tasks = await running(pool, engine, 8)
    for index in (5, 0, 7, 1, 2, 6, 3, 4):
        engine.workers[0].answer(index, result=index)
    assert [await task for task in tasks] == list(range(8))


async def test_a_call_that_is_given_up_beside_others_is_cancelled_in_its_worker(make: Make) -> None:
    pool, engine = make(concurrency=3, max_workers=1)
    first, second, third = await running(pool, engine, 3)
    numbers = [request["id"] for request in engine.workers[0].requests]
    second.cancel()
    await asyncio.wait([second])
    assert engine.workers[0].cancelled == [numbers[1]]
    assert not engine.workers[0].killed
    engine.workers[0].answer(0)
    engine.workers[0].answer(2)
    await asyncio.gather(first, third)
    assert engine.workers[0].killed


async def test_slow_starts_do_not_start_a_second_worker_for_the_same_call(make: Make) -> None:
    pool, engine = make(MemoryEngine(ready=False))
    task = asyncio.create_task(pool.run(request()))
    await until(lambda: engine.workers)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(engine.workers) == 1
    engine.workers[0].be_ready()
    await until(lambda: engine.workers[0].requests)
    engine.workers[0].answer()
    assert await task == "done"


async def test_a_call_that_is_given_up_takes_its_worker_with_it_and_the_next_gets_a_new_one(make: Make) -> None:
    pool, engine = make()
    [task] = await running(pool, engine, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.workers[0].killed
    [second] = [asyncio.create_task(pool.run(request()))]
    await until(lambda: len(engine.workers) == 2 and engine.workers[1].requests)
    engine.workers[1].answer()
    assert await second == "done"


async def test_a_call_that_is_given_up_does_not_harm_those_that_share_its_worker(make: Make) -> None:
    pool, engine = make(concurrency=2, max_workers=1)
    first, second = await running(pool, engine, 2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not engine.workers[0].killed
    third = asyncio.create_task(pool.run(request()))
    await until(lambda: len(engine.workers) == 2 and engine.workers[1].requests)
    engine.workers[0].answer(1)
    assert await second == "done"
    await until(lambda: engine.workers[0].killed)
    engine.workers[1].answer()
    assert await third == "done"


async def test_a_call_that_is_given_up_while_it_waits_costs_no_worker(make: Make) -> None:
    pool, engine = make(max_workers=1)
    [first] = await running(pool, engine, 1)
    waiting = asyncio.create_task(pool.run(request()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    engine.workers[0].answer()
    assert await first == "done"
    assert not engine.workers[0].killed


async def test_the_calls_of_a_worker_that_dies_are_answered_and_nothing_is_sent_twice(make: Make) -> None:
    pool, engine = make(concurrency=2, max_workers=1)
    tasks = await running(pool, engine, 2)
    engine.workers[0].end(-11, "Fatal Python error: Segmentation fault")
    for task in tasks:
        with pytest.raises(WorkerLostError, match="SIGSEGV") as lost:
            await task
        assert lost.value.side_effects is SideEffects.UNKNOWN
        assert "Fatal Python error" in lost.value.detail
    assert len(engine.workers) == 1, "a call is not repeated behind the caller's back"


async def test_five_deaths_in_a_minute_open_the_breaker_and_an_answer_closes_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("toolrun.scripts.pool.monotonic", lambda: now)
    pool, engine = make()
    for count in range(5):
        task = asyncio.create_task(pool.run(request()))

        def is_sent(index: int = count) -> bool:
            return len(engine.workers) == index + 1 and bool(engine.workers[index].requests)

        await until(is_sent)
        engine.workers[-1].end(3)
        with pytest.raises(WorkerLostError, match="exit code 3"):
            await task
    with pytest.raises(UnavailableError, match="keeps dying") as refused:
        await pool.run(request())
    assert refused.value.side_effects is SideEffects.NOT_STARTED
    assert len(engine.workers) == 5
    now += 31
    probe = asyncio.create_task(pool.run(request()))
    await until(lambda: len(engine.workers) == 6 and engine.workers[5].requests)
    engine.workers[5].answer()
    assert await probe == "done"


async def test_a_worker_that_cannot_be_started_or_loaded_or_is_never_ready_answers_all_who_wait(make: Make) -> None:
    pool, engine = make()
    engine.failure = OSError("no such interpreter")
    with pytest.raises(UnavailableError, match="no such interpreter"):
        await pool.run(request())
    engine.failure, engine.ready = None, False
    tasks = [asyncio.create_task(pool.run(request())) for _ in range(3)]
    await until(lambda: engine.workers)
    engine.workers[0].say(ready={"error": "SyntaxError: invalid syntax (line 3)"})
    for task in tasks:
        with pytest.raises(CallError, match=r"SyntaxError|keeps dying"):
            await task
    slow, _ = make(MemoryEngine(ready=False), start_timeout=0.01)
    with pytest.raises(UnavailableError, match=r"not ready within 0\.01 s"):
        await slow.run(request())


async def test_a_start_that_fails_costs_no_call_that_another_worker_will_take(make: Make) -> None:
    attempts: list[ProcessSpec] = []

    class Counting(MemoryEngine):
        def start(self, spec: ProcessSpec, listener: Listener) -> MemoryWorker:
            attempts.append(spec)
            return super().start(spec, listener)

    pool, engine = make(Counting(ready=False))
    first = asyncio.create_task(pool.run(request()))
    await until(lambda: engine.workers)
    engine.failure = OSError("too many open files")
    second = asyncio.create_task(pool.run(request()))
    await until(lambda: len(attempts) == 2)
    engine.workers[0].be_ready()
    for task in (first, second):
        await until(lambda: engine.workers[0].requests)
        engine.workers[0].answer()
        engine.workers[0].requests.clear()
        assert await task == "done"


async def test_rubbish_costs_the_worker_and_its_calls_a_clear_answer(make: Make) -> None:
    pool, engine = make()
    [task] = await running(pool, engine, 1)
    engine.workers[0].listener.received(b"Traceback (most recent call last):\n")
    with pytest.raises(ProtocolError, match="not JSON"):
        await task
    assert engine.workers[0].killed


@pytest.mark.parametrize("distance", [-1, 1])
async def test_an_answer_to_a_call_that_was_not_made_is_the_end_of_its_worker(make: Make, distance: int) -> None:
    pool, engine = make()
    [task] = await running(pool, engine, 1)
    worker = engine.workers[0]
    worker.say(id=worker.requests[0]["id"] + distance, result="stray", error=None)
    with pytest.raises(ProtocolError, match="an answer to a call that it did not get"):
        await task


async def test_doubled_and_late_answers_are_ignored(make: Make) -> None:
    pool, engine = make()
    [task] = await running(pool, engine, 1)
    worker = engine.workers[0]
    worker.answer(result="first")
    worker.answer(result="second")
    assert await task == "first"
    [task] = [asyncio.create_task(pool.run(request()))]
    await until(lambda: len(worker.requests) == 2)
    worker.answer(0, result="late")
    worker.answer(1, result="right")
    assert await task == "right"


async def test_progress_and_classes_of_an_exception_belong_to_their_call(make: Make) -> None:
    pool, engine = make()
    seen: list[Progress] = []
    call = Call(ToolExecutor(ToolManager()), "add", {}, None)
    call.on_progress = seen.append
    task = asyncio.create_task(pool.run(request(call)))
    await until(lambda: engine.workers and engine.workers[0].requests)
    number = engine.workers[0].requests[0]["id"]
    engine.workers[0].say(id=number, progress={"progress": 1, "total": 2, "message": "half"})
    engine.workers[0].say(id=number, raised=["builtins.ConnectionError", "builtins.OSError"])
    engine.workers[0].answer(result=None, error="refused")
    with pytest.raises(UnavailableError, match="refused"):
        await task
    assert seen == [Progress(1, 2, "half")]


@pytest.mark.parametrize("limit", [{"max_calls": 1}, {"max_age": 1e-9}, {"max_memory": 1}])
async def test_a_worn_out_worker_is_replaced_between_two_calls(make: Make, limit: dict[str, float]) -> None:
    pool, engine = make(**limit)
    [task] = await running(pool, engine, 1)
    engine.workers[0].memory = 10
    engine.workers[0].answer()
    await task
    await until(lambda: engine.workers[0].closed)
    assert not engine.workers[0].killed
    second = asyncio.create_task(pool.run(request()))
    await until(lambda: len(engine.workers) == 2 and engine.workers[1].requests)
    engine.workers[1].answer()
    await second


async def test_an_idle_worker_ends_and_a_call_keeps_it(make: Make) -> None:
    pool, engine = make(idle_timeout=0.02)
    [task] = await running(pool, engine, 1)
    engine.workers[0].answer()
    await task
    await until(lambda: engine.workers[0].closed)
    assert pool.workers == []


async def test_a_retired_pool_refuses_new_calls_and_ends_its_workers_after_their_last(make: Make) -> None:
    pool, engine = make()
    [task] = await running(pool, engine, 1)
    pool.retire()
    with pytest.raises(UnavailableError):
        await pool.run(request())
    assert not engine.workers[0].closed
    engine.workers[0].answer()
    assert await task == "done"
    await until(lambda: engine.workers[0].closed)


async def test_closing_drains_then_ends(make: Make) -> None:
    pool, engine = make(max_workers=1)
    [task] = await running(pool, engine, 1)
    waiting = asyncio.create_task(pool.run(request()))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.close(drain=10))
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="shutting down"):
        await waiting
    engine.workers[0].answer()
    assert await task == "done"
    await closing
    assert engine.workers[0].closed
    assert not engine.workers[0].killed


async def test_a_retired_pool_tells_when_its_last_worker_has_ended(make: Make) -> None:
    pool, engine = make(MemoryEngine(lingers=True))
    [task] = await running(pool, engine, 1)
    ended: list[Pool] = []
    pool.retire(ended.append)
    await asyncio.sleep(0)
    assert ended == [], "a call runs"
    engine.workers[0].answer()
    assert await task == "done"
    await until(lambda: engine.workers[0].closed)
    assert ended == [], "its worker is there"
    engine.workers[0].end(0)
    await until(lambda: ended)
    assert ended == [pool]


async def test_a_pool_without_workers_tells_at_once_that_it_has_ended(make: Make) -> None:
    pool, _ = make()
    ended: list[Pool] = []
    pool.retire(ended.append)
    assert ended == [pool]
