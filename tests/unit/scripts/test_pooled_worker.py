"""One worker as the pool sees it. How the pool uses it is in test_pool.py."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from toolrun.errors import ProtocolError, SideEffects
from toolrun.json import JSON
from toolrun.processes.engine import ProcessSpec, StatusReporter, WorkerStatus
from toolrun.result import Large
from toolrun.scripts.pool import Pool
from toolrun.scripts.pool_state import PoolLimits, WorkerState
from toolrun.scripts.pooled_worker import NoPool, PooledWorker
from toolrun.scripts.request import Request
from toolrun.testing import MemoryEngine
from toolrun.testing.memory_engine import MemoryWorker


@pytest.mark.parametrize(
    ("state", "load", "word"),
    [
        (WorkerState.STARTING, 0, "starting"),
        (WorkerState.READY, 0, "ready"),
        (WorkerState.READY, 2, "busy"),
        (WorkerState.DRAINING, 1, "draining"),
        (WorkerState.ENDED, 0, "ending"),
    ],
)
async def test_the_state_of_a_worker_is_reported_in_a_word(state: WorkerState, load: int, word: str) -> None:
    worker = PooledWorker("test", NoPool(), 0.0)
    worker.state, worker.calls, worker.load = state, 7, load
    assert isinstance(worker, StatusReporter)
    assert worker.status() == WorkerStatus(word, 7, load)


async def test_a_worker_that_says_so_is_reported_as_ready() -> None:
    worker = PooledWorker("test", NoPool(), 0.0)
    worker.received(b'{"ready": {"functions": []}}\n')
    await asyncio.wait_for(worker.ready, 0)
    assert worker.status() == WorkerStatus("ready", 0, 0)


LARGE: Any = [{"n": number, "text": "a,b"} for number in range(40_000)]
"""About a megabyte of JSON."""


class Bench:
    """A pool whose worker takes several calls at once, and does as it is told."""

    def __init__(self) -> None:
        async def make_spec() -> ProcessSpec:
            return ProcessSpec("test", Path("none"), (), Path.cwd(), {})

        self.engine = MemoryEngine()
        self.tasks: list[asyncio.Task[JSON | Large]] = []
        self.pool = Pool("test", self.engine, make_spec, PoolLimits(max_workers=1, concurrency=4))

    async def call(self, number: int) -> Request:
        """A call that has reached the worker: the loop has to turn until then."""
        request = Request("f", {"number": number})
        if not self.pool.submit(request):
            self.tasks.append(asyncio.ensure_future(self.pool.run(request)))
        async with asyncio.timeout(10):
            while not any(it["kwargs"] == request.kwargs for it in self.worker_requests()):  # noqa: ASYNC110
                await asyncio.sleep(0)
        return request

    def worker_requests(self) -> list[dict[str, Any]]:
        return self.worker.requests if self.engine.workers else []

    @property
    def worker(self) -> MemoryWorker:
        return self.engine.workers[-1]


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await asyncio.wait_for(asyncio.gather(*made.tasks, return_exceptions=True), 30)
    await made.pool.close()


async def outcome(request: Request) -> tuple[JSON | Large, Exception | None]:
    return await asyncio.wait_for(asyncio.shield(request.outcome), 30)


async def test_a_large_answer_is_read_elsewhere_and_a_small_one_behind_it_does_not_wait(bench: Bench) -> None:
    large, small = await bench.call(1), await bench.call(2)
    reads = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal reads
        reads += event == "c_call" and argument is orjson.loads

    line = json.dumps({"id": bench.worker.requests[0]["id"], "result": LARGE, "error": None}).encode()
    before = sys.getprofile()
    sys.setprofile(count)  # of this thread only
    try:
        bench.worker.listener.received(line + b"\n")
    finally:
        sys.setprofile(before)
    assert (reads, large.outcome.done()) == (0, False)
    bench.worker.answer(1, result="small")
    assert small.outcome.result() == ("small", None)
    assert not large.outcome.done()
    assert await outcome(large) == (Large(LARGE), None)


async def test_a_worker_that_has_sent_a_large_answer_may_die_before_it_is_read(bench: Bench) -> None:
    request = await bench.call(1)
    bench.worker.answer(result=LARGE)
    bench.worker.end(1)
    assert await outcome(request) == (Large(LARGE), None)


async def test_a_worker_is_free_again_while_its_large_answer_is_read_also_if_nobody_waits_for_it(bench: Bench) -> None:
    request = await bench.call(1)
    worker = bench.worker
    worker.answer(result=LARGE)
    assert bench.pool.workers[0].load == 0
    request.give_up()  # at its deadline
    assert not worker.killed
    other = await bench.call(2)
    worker.answer(1, result="other")
    assert await outcome(other) == ("other", None)
    assert (worker.killed, worker.cancelled, len(bench.engine.workers)) == (False, [], 1)


async def test_a_large_error_is_the_failure_of_its_call(bench: Bench) -> None:
    request = await bench.call(1)
    bench.worker.say(id=bench.worker.requests[0]["id"], raised=["builtins.ValueError"])
    bench.worker.answer(result=None, error="no " * 300_000)
    value, error = await outcome(request)
    assert value is None
    assert str(error).startswith("no no no")
    assert not bench.worker.killed


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id":%d,"result":[' + "1," * 400_000, "not JSON"),
        ('{"id":%d,"result":[' + "1," * 400_000 + '1],"error":7}', "an unknown message"),
        ('{"id":%d,"result":[' + "1," * 400_000 + '1],"error":null,"id":0}', "an answer with two ids"),
        ("[%d," + "1," * 400_000 + "1]", "not an object"),
    ],
    ids=["cut", "unknown", "two ids", "list"],
)
async def test_a_large_line_that_is_no_answer_costs_the_worker_its_life(bench: Bench, line: str, reason: str) -> None:
    one, other = await bench.call(1), await bench.call(2)
    bench.worker.listener.received((line % bench.worker.requests[0]["id"]).encode() + b"\n")
    for request in (one, other):
        value, error = await outcome(request)
        assert value is None
        assert isinstance(error, ProtocolError)
        assert reason in str(error)
        assert error.side_effects is SideEffects.UNKNOWN
    assert bench.worker.killed


async def test_a_large_answer_to_a_call_that_was_answered_is_not_read(bench: Bench) -> None:
    first = await bench.call(1)
    bench.worker.answer(result="first")
    assert await outcome(first) == ("first", None)
    second = await bench.call(2)
    bench.worker.say(id=first.number, result=LARGE, error=None)
    bench.worker.answer(1, result="right")
    assert await outcome(second) == ("right", None)
    assert not bench.worker.killed


async def test_a_large_answer_to_a_call_that_was_not_made_is_the_end_of_its_worker(bench: Bench) -> None:
    request = await bench.call(1)
    bench.worker.say(id=999_999_999, result=LARGE, error=None)
    result, error = await outcome(request)
    assert result is None
    assert "an answer to a call that it did not get" in str(error)
    assert bench.worker.killed


async def test_a_worker_that_describes_much_is_ready() -> None:
    worker = PooledWorker("test", NoPool(), 0.0)
    worker.received(json.dumps({"ready": {"functions": LARGE}}).encode() + b"\n")
    assert not worker.ready.done()
    await asyncio.wait_for(worker.ready, 30)
    assert worker.info == {"functions": LARGE}
