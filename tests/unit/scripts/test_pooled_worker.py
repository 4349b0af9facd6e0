"""One worker as the pool sees it. How the pool uses it is in test_pool.py."""

from __future__ import annotations

import asyncio

import pytest

from toolrun.processes.engine import StatusReporter, WorkerStatus
from toolrun.scripts.pool_state import State
from toolrun.scripts.pooled_worker import NoPool, PooledWorker


@pytest.mark.parametrize(
    ("state", "load", "word"),
    [
        (State.STARTING, 0, "starting"),
        (State.READY, 0, "ready"),
        (State.READY, 2, "busy"),
        (State.DRAINING, 1, "draining"),
        (State.ENDED, 0, "ending"),
    ],
)
async def test_the_state_of_a_worker_is_reported_in_a_word(state: State, load: int, word: str) -> None:
    worker = PooledWorker("test", NoPool(), 0.0)
    worker.state, worker.calls, worker.load = state, 7, load
    assert isinstance(worker, StatusReporter)
    assert worker.status() == WorkerStatus(word, 7, load)


async def test_a_worker_that_says_so_is_reported_as_ready() -> None:
    worker = PooledWorker("test", NoPool(), 0.0)
    worker.received(b'{"ready": {"functions": []}}\n')
    await asyncio.wait_for(worker.ready, 0)
    assert worker.status() == WorkerStatus("ready", 0, 0)
