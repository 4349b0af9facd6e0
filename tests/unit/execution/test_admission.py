"""Slots are given out in order, come back, and are never lost."""

from __future__ import annotations

import asyncio

import pytest

from toolrun.errors import CallTimeoutError, OverloadedError, SideEffects
from toolrun.execution.admission import Limiter, Slot

LONG = 30.0


def leave(slot: Slot) -> None:
    slot.release_shared()
    slot.release_tool()


async def start(limiter: Limiter, name: str = "t", concurrency: int | None = None, is_shared: bool = True) -> Slot:
    return await limiter.acquire(name, concurrency, is_shared, LONG)


async def queue(limiter: Limiter, name: str = "t", concurrency: int | None = None) -> asyncio.Task[Slot]:
    """A call that waits for its slot."""
    before = limiter.queued
    task = asyncio.create_task(start(limiter, name, concurrency))
    await asyncio.sleep(0)
    assert limiter.queued == before + 1
    return task


async def turn(task: asyncio.Task[Slot]) -> Slot:
    return await asyncio.wait_for(task, 5)


async def test_slots_are_is_shared_and_come_back() -> None:
    limiter = Limiter(2, 0)
    first, second = await start(limiter), limiter.acquire_nowait(True)
    assert limiter.running == 2
    leave(first)
    leave(second)
    assert (limiter.running, limiter.queued) == (0, 0)


async def test_who_comes_first_is_served_first() -> None:
    limiter = Limiter(1, 10)
    slot = await start(limiter)
    waiting = [await queue(limiter) for _ in range(3)]
    for task in waiting:
        assert not task.done()
        leave(slot)
        assert limiter.running == 1, "the slot has passed on without a moment in which it is free"
        slot = await turn(task)
    leave(slot)
    assert (limiter.running, limiter.queued) == (0, 0)


async def test_beyond_the_queue_a_call_is_refused() -> None:
    limiter = Limiter(1, 1)
    slot = await start(limiter)
    waiting = await queue(limiter)
    with pytest.raises(OverloadedError, match="1 are running and 1 are waiting") as caught:
        await start(limiter)
    assert caught.value.side_effects is SideEffects.NOT_STARTED
    leave(slot)
    leave(await turn(waiting))
    assert limiter.running == 0


async def test_a_tool_with_a_limit_of_its_own_waits_without_holding_up_the_others() -> None:
    limiter = Limiter(10, 10)
    slot = await start(limiter, "once", 1)
    waiting = await queue(limiter, "once", 1)
    other = await start(limiter, "other", 1)
    assert (limiter.running, limiter.of_tool) == (2, {"once": 1, "other": 1})
    leave(slot)
    leave(await turn(waiting))
    leave(other)
    assert limiter.running == 0
    assert not +limiter.of_tool


async def test_a_shared_slot_goes_to_the_first_who_can_use_it() -> None:
    limiter = Limiter(2, 10)
    held, filler = await start(limiter, "once", 1), await start(limiter)
    blocked = await queue(limiter, "once", 1)
    able = await queue(limiter)
    leave(filler)
    leave(await turn(able))
    assert not blocked.done()
    leave(held)
    leave(await turn(blocked))
    assert limiter.running == 0


async def test_the_tools_own_slot_stays_taken_until_its_body_has_ended() -> None:
    limiter = Limiter(1, 10)
    given_up = await start(limiter, "once", 1)
    given_up.release_shared()
    assert (limiter.running, limiter.of_tool["once"]) == (0, 1)
    waiting = await queue(limiter, "once", 1)
    leave(await start(limiter, "other"))
    assert not waiting.done()
    given_up.release_tool()
    leave(await turn(waiting))


async def test_a_call_that_a_tool_makes_needs_no_shared_slot_but_one_of_its_tool() -> None:
    limiter = Limiter(1, 10)
    outer = await start(limiter)
    inner = await start(limiter, "once", 1, is_shared=False)
    assert limiter.running == 1
    task = asyncio.create_task(start(limiter, "once", 1, is_shared=False))
    await asyncio.sleep(0)
    assert limiter.queued == 1
    leave(inner)
    leave(await turn(task))
    leave(outer)
    assert limiter.running == 0


async def test_who_waits_too_long_is_told_so_and_leaves_the_queue() -> None:
    limiter = Limiter(1, 10)
    slot = await start(limiter)
    with pytest.raises(CallTimeoutError, match="Tool 'late' did not get its turn") as caught:
        await limiter.acquire("late", None, True, 0)
    assert caught.value.side_effects is SideEffects.NOT_STARTED
    assert limiter.queued == 0
    leave(slot)
    assert limiter.running == 0


async def test_a_cancelled_call_leaves_the_queue() -> None:
    limiter = Limiter(1, 10)
    slot = await start(limiter)
    cancelled, patient = await queue(limiter), await queue(limiter)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert limiter.queued == 1
    leave(slot)
    leave(await turn(patient))
    assert limiter.running == 0


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_a_slot_that_is_given_in_the_moment_of_the_cancellation_is_passed_on(concurrency: int | None) -> None:
    limiter = Limiter(1, 10)
    slot = await start(limiter, "t", concurrency)
    cancelled, patient = await queue(limiter, "t", concurrency), await queue(limiter, "t", concurrency)
    leave(slot)  # its turn has come, but the task has not run since
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    leave(await turn(patient))
    assert limiter.running == 0
    assert not +limiter.of_tool
