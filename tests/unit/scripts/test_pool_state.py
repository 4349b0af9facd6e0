"""The decisions of a pool, without a pool. `test_pool_machine.py` drives them through any sequence of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from toolrun.scripts.pool_state import (
    TRANSITIONS,
    Assign,
    EndWorker,
    Event,
    PoolLimits,
    PoolState,
    Refuse,
    StartWorker,
    WorkerRecord,
    WorkerState,
)

Pool = PoolState[WorkerRecord, str]
LIMITS = PoolLimits(concurrency=2, max_workers=2, idle_timeout=100.0)


def ready_worker(pool: Pool, now: float = 0.0) -> WorkerRecord:
    worker = WorkerRecord(now)
    pool.starting += 1
    pool.add(worker)
    pool.loaded(worker)
    pool.started()
    return worker


def acquired(pool: Pool) -> WorkerRecord:
    worker = pool.acquire()
    assert worker is not None
    return worker


def assigned(actions: Sequence[object]) -> list[str]:
    return [action.ticket for action in actions if isinstance(action, Assign)]


def test_a_worker_that_has_ended_stays_ended() -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before is WorkerState.ENDED} == {WorkerState.ENDED}


def test_only_a_worker_that_has_loaded_its_script_becomes_ready() -> None:
    leading = [pair for pair, after in TRANSITIONS.items() if after is WorkerState.READY]
    assert leading == [(WorkerState.STARTING, Event.LOADED)]


def test_calls_fill_a_worker_before_another_is_started() -> None:
    pool: Pool = PoolState(LIMITS)
    assert pool.acquire() is None
    assert pool.enqueue("a") == (StartWorker(),)
    assert pool.enqueue("b") == ()
    assert pool.enqueue("c") == (StartWorker(),)
    assert pool.enqueue("d") == pool.enqueue("e") == (), "there are as many as there may be"


def test_those_who_wait_come_first_and_in_order() -> None:
    pool: Pool = PoolState(replace(LIMITS, max_workers=1))
    worker = ready_worker(pool)
    acquired(pool)
    acquired(pool)
    for ticket in "abc":
        pool.enqueue(ticket)
    assert pool.acquire() is None
    assert assigned(pool.release(worker, 1.0)) == ["a"]
    pool.withdraw("b")
    assert assigned(pool.release(worker, 1.0)) == ["c"]
    assert worker.load == 2


def test_a_call_that_is_given_up_takes_its_worker_with_it_once_the_others_have_ended() -> None:
    pool: Pool = PoolState(LIMITS)
    worker = ready_worker(pool)
    acquired(pool)
    acquired(pool)
    assert pool.give_up(worker) == ()
    assert (worker.state, worker.load) == (WorkerState.DRAINING, 1)
    assert pool.acquire() is None
    assert pool.release(worker, 1.0) == [EndWorker(worker, kill=True)]
    assert (worker.state, pool.workers) == (WorkerState.ENDED, [])


@pytest.mark.parametrize(
    ("limits", "now", "memory"),
    [({"max_calls": 1}, 0.0, None), ({"max_age": 5.0}, 5.0, None), ({"max_memory": 10}, 0.0, 10)],
)
def test_a_worn_out_worker_is_closed_after_its_call(limits: dict[str, Any], now: float, memory: int | None) -> None:
    pool: Pool = PoolState(replace(LIMITS, **limits))
    worker = ready_worker(pool)
    acquired(pool)
    assert pool.release(worker, now, memory) == [EndWorker(worker, kill=False)]
    fresh: Pool = PoolState(replace(LIMITS, **{name: value + 1 for name, value in limits.items()}))
    worker = ready_worker(fresh)
    acquired(fresh)
    assert fresh.release(worker, now, memory) == ()


def test_idle_workers_end_and_busy_ones_do_not() -> None:
    pool: Pool = PoolState(replace(LIMITS, concurrency=1))
    busy, idle = ready_worker(pool, 0.0), ready_worker(pool, 1.0)
    assert acquired(pool) is busy
    assert pool.next_idle() == 100.0
    assert pool.end_idle(100.9) == []
    assert pool.end_idle(101.0) == [EndWorker(idle, kill=False)]
    assert pool.workers == [busy]


def test_a_failed_start_refuses_those_who_wait_only_if_no_other_can_help() -> None:
    pool: Pool = PoolState(replace(LIMITS, concurrency=1))
    pool.enqueue("a")
    pool.enqueue("b")
    assert pool.start_failed(None, 0.0, is_final=False) == (), "the other start may succeed"
    assert pool.start_failed(None, 0.0, is_final=False) == (Refuse(("a", "b")),)
    pool.enqueue("c")
    pool.enqueue("d")
    assert pool.start_failed(None, 0.0, is_final=True) == (Refuse(("c", "d")),)
    ready_worker(pool)
    acquired(pool)
    pool.enqueue("e")
    assert pool.start_failed(None, 0.0, is_final=True) == (), "a worker is there"


def test_workers_that_keep_dying_are_not_started_for_a_while() -> None:
    pool: Pool = PoolState(LIMITS)
    for now in range(5):
        worker = ready_worker(pool)
        assert pool.died(worker, float(now))[0]
        assert not pool.died(worker, float(now))[0], "it is counted once"
    assert pool.closed_for(4.0) == 30.0
    assert pool.start_delay(4.0) > 0
    worker = ready_worker(pool)
    assert pool.closed_for(4.0) == 0.0
    acquired(pool)
    pool.release(worker, 5.0)
    assert pool.start_delay(5.0) == 0.0, "an answer proves that all is well"


def test_a_retired_pool_ends_its_workers_with_their_last_calls() -> None:
    pool: Pool = PoolState(replace(LIMITS, concurrency=1))
    busy, free = ready_worker(pool), ready_worker(pool)
    assert acquired(pool) is busy
    assert pool.retire() == [EndWorker(free, kill=False)]
    assert pool.is_closed
    assert pool.release(busy, 1.0) == [EndWorker(busy, kill=False)]


def test_a_closed_pool_refuses_those_who_wait_and_kills_what_runs() -> None:
    pool: Pool = PoolState(replace(LIMITS, max_workers=1, concurrency=1))
    worker = ready_worker(pool)
    acquired(pool)
    pool.enqueue("a")
    assert pool.close() == (Refuse(("a",)),)
    assert pool.end_all() == [EndWorker(worker, kill=True)]


def test_an_outdated_worker_ends_at_once_if_it_has_no_call() -> None:
    pool = Pool(LIMITS)
    worker = ready_worker(pool)
    assert pool.outdated(worker) == [EndWorker(worker, kill=False)]
    assert worker not in pool.workers
    assert pool.outdated(worker) == (), "it is said again for as long as the process is there"


def test_an_outdated_worker_ends_with_its_last_call_and_another_one_serves_those_who_wait() -> None:
    pool = Pool(replace(LIMITS, concurrency=1, max_workers=1))
    worker = ready_worker(pool)
    acquired(pool)
    pool.enqueue("waiting")
    assert pool.outdated(worker) == [StartWorker()], "a worker that ends is none of the one that may be there"
    assert worker.state is WorkerState.DRAINING
    assert EndWorker(worker, kill=False) in pool.release(worker, 1.0)


def test_a_worker_that_is_starting_is_outdated_once_it_is_ready() -> None:
    pool = Pool(LIMITS)
    worker = WorkerRecord(0.0)
    pool.starting += 1
    pool.add(worker)
    assert pool.outdated(worker) == ()
    pool.loaded(worker)
    assert EndWorker(worker, kill=False) in pool.outdated(worker)


def test_a_pool_that_spreads_gives_a_call_to_the_worker_with_the_least_of_them() -> None:
    pool: Pool = PoolState(replace(LIMITS, concurrency=4, spreads=True))
    first, second = ready_worker(pool), ready_worker(pool)
    assert [acquired(pool) for _ in range(4)] == [first, second, first, second]
    pool.release(first)
    pool.release(first)
    assert [acquired(pool) for _ in range(3)] == [first, first, first]
    assert (first.load, second.load) == (3, 2)


def test_calls_that_waited_are_spread_as_well() -> None:
    pool: Pool = PoolState(replace(LIMITS, concurrency=1, max_workers=2, spreads=True))
    workers = [ready_worker(pool), ready_worker(pool)]
    taken = [acquired(pool), acquired(pool)]
    assert set(map(id, taken)) == set(map(id, workers))
    for name in ("a", "b"):
        pool.enqueue(name)
    assert assigned(pool.release(taken[0])) == ["a"]
    assert assigned(pool.release(taken[1])) == ["b"]
    assert [it.load for it in workers] == [1, 1]


def test_workers_that_are_lost_with_their_machines_do_not_open_the_breaker() -> None:
    pool: Pool = PoolState(LIMITS)
    for number in range(10):
        worker = ready_worker(pool)
        worker.is_lost = True
        assert pool.died(worker, number) == (True, [])
    assert pool.closed_for(10.0) == 0.0
    assert pool.start_delay(10.0) == 0.0
