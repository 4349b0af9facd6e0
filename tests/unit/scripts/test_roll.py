"""The workers of an edited script on a cluster: one by one, and never none. The test is the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.waiting import until
from toolrun.errors import CallError
from toolrun.json import JSON
from toolrun.processes.engine import Listener, ProcessSpec
from toolrun.result import Large
from toolrun.scripts.pool import Pool, RetiredError
from toolrun.scripts.pool_state import PoolLimits
from toolrun.scripts.request import Request
from toolrun.scripts.roll import roll
from toolrun.testing import MemoryEngine
from toolrun.testing.memory_engine import MemoryWorker


class Narrow(MemoryEngine):
    """Has room for so many workers at a time, and notes who came and went."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.most = 0

    def start(self, spec: ProcessSpec, listener: Listener) -> MemoryWorker:
        alive = [it for it in self.workers if not it.ended]
        if len(alive) >= self.room:
            raise OSError("no room")
        self.most = max(self.most, len(alive) + 1)
        return super().start(spec, listener)


class Turn:
    """Two pools of one engine, and what the callers use."""

    def __init__(self, engine: Narrow, workers: int) -> None:
        self.engine = engine
        self.limits = PoolLimits(max_workers=workers, spreads=True)
        self.old, self.new = (Pool(name, engine, self._spec, self.limits) for name in ("old", "new"))
        self.used = self.old
        self.fewest = workers
        self.left = workers
        """Of the old ones, when the new ones were used."""

    async def _spec(self) -> ProcessSpec:
        self.fewest = min(self.fewest, len(self.used.ready))
        return ProcessSpec("script", Path("python"), (), Path())

    async def fill(self) -> None:
        for _ in range(self.limits.max_workers):
            assert await self.old.start_worker()
        self.fewest = self.limits.max_workers

    def use_new(self) -> None:
        assert self.used is self.old, "once"
        self.used = self.new
        self.left = len(self.old.ready)
        self.old.retire()


@asynccontextmanager
async def turn(workers: int, room: int | None = None) -> AsyncIterator[Turn]:
    made = Turn(Narrow(workers if room is None else room), workers)
    await made.fill()
    try:
        yield made
    finally:
        for pool in (made.old, made.new):
            await pool.close()


def call(pool: Pool) -> asyncio.Task[JSON | Large]:
    return asyncio.create_task(pool.run(Request("add", {"a": 1})))


@pytest.mark.parametrize("workers", [2, 3, 4, 5])
async def test_half_of_the_workers_are_there_at_every_moment_and_no_more_than_there_is_room_for(workers: int) -> None:
    async with turn(workers) as it:
        await roll(it.old, it.new, it.use_new)
        assert it.fewest == workers // 2
        assert it.engine.most == workers
        assert (len(it.old.workers), len(it.new.ready)) == (0, workers)


async def test_a_single_worker_makes_room_for_its_successor() -> None:
    async with turn(1) as it:
        await roll(it.old, it.new, it.use_new)
        assert (it.used, len(it.new.ready)) == (it.new, 1)


async def test_without_workers_the_next_call_starts_one_of_the_new_version() -> None:
    async with turn(0, 1) as it:
        await roll(it.old, it.new, it.use_new)
        assert it.used is it.new
        assert not it.engine.workers


async def test_a_call_that_runs_is_answered_by_the_worker_that_it_runs_in() -> None:
    async with turn(1) as it:
        running = call(it.old)
        await until(lambda: it.engine.workers[0].requests)
        rolling = asyncio.create_task(roll(it.old, it.new, it.use_new))
        waiting = call(it.old)
        await asyncio.sleep(0)
        assert len(it.engine.workers) == 1, "calls that wait start none of the old version"
        it.engine.workers[0].answer(result=7)
        assert await running == 7
        await rolling
        with pytest.raises(RetiredError):  # its caller goes on to the new version
            await waiting


async def test_a_version_that_cannot_be_started_is_used_at_once_so_that_its_callers_are_told() -> None:
    async with turn(4) as it:
        it.engine.room = 0
        await roll(it.old, it.new, it.use_new)
        assert it.used is it.new
        assert it.left == 3, "no more of the old ones were ended for it"
        with pytest.raises(CallError, match="no room"):
            await call(it.new)


async def test_workers_that_are_lost_meanwhile_are_not_waited_for() -> None:
    async with turn(4) as it:
        for worker in it.engine.workers:
            worker.end(-9)
        await roll(it.old, it.new, it.use_new)
        assert it.used is it.new


async def test_a_new_one_starts_when_the_old_one_has_ended() -> None:
    async with turn(2) as it:
        first, second = it.engine.workers
        first.lingers = True
        rolling = asyncio.create_task(roll(it.old, it.new, it.use_new))
        await until(lambda: first.closed)
        for _ in range(10):
            await asyncio.sleep(0)
        assert it.engine.workers == [first, second]
        first.end(0)
        await rolling
        assert len(it.new.ready) == 2
