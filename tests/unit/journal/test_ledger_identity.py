"""What makes two calls the same, for us and for the destination; batches that are repeated."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.journal_world import World, add_act
from toolrun import ErrorKind, Limits, ToolCall, ToolContext, ToolError, ToolExecutor
from toolrun.journal.history import open_history
from toolrun.tools.context import CallKey


async def test_the_key_of_another_caller_is_another_key(world: World) -> None:
    add_act(world)
    keys: list[str | CallKey] = ["k", CallKey("k", "a"), CallKey("k", "b"), CallKey("b k", "a"), CallKey("k", "a b")]
    for _ in range(2):
        for key in keys:
            assert (await world.executor.execute("act", {"n": 1}, key=key)).result == {"n": 1}
    assert world.ran == [1] * len(keys)


def add_tell(world: World) -> None:
    async def tell(context: ToolContext) -> str:
        """Tell."""
        world.ran.append(context.idempotency_key)
        await asyncio.sleep(0)
        assert context.idempotency_key == world.ran[-1]
        if len(world.ran) == 1:
            raise ToolError("not yet")
        return context.idempotency_key

    world.add(tell)


async def test_every_attempt_of_a_call_with_a_key_has_the_same_idempotency_key_and_another_call_has_another(
    world: World,
) -> None:
    add_tell(world)
    for key in ("k", "k", "other", None, None):
        await world.executor.execute("tell", key=key)
    first, again, *others = world.ran
    assert first == again
    assert len({first, *others}) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", it) for it in world.ran)


async def test_the_idempotency_key_is_the_same_in_another_process_and_does_not_show_what_was_given(
    world: World, tmp_path: Path
) -> None:
    add_tell(world)
    await world.executor.execute("tell", key="order-17")
    other = World(tmp_path / "other.db")
    other.manager = world.manager
    other.executor = other.another_executor()
    await other.executor.execute("tell", key="order-17")
    await other.executor.close()
    other.journal.close()
    assert world.ran[0] == world.ran[1]
    assert "order-17" not in world.ran[0]


async def test_the_journal_knows_the_idempotency_key_of_every_call_that_may_have_acted(world: World) -> None:
    add_tell(world)
    for key in ("k", "other", None, None):
        await world.executor.execute("tell", key=key)
    calls = await world.calls()
    with open_history(world.path) as history:
        assert [history.idempotency_key(call) for call in calls] == world.ran


async def test_calls_of_the_same_number_in_two_journals_have_different_idempotency_keys(tmp_path: Path) -> None:
    worlds = [World(tmp_path / f"{name}.db") for name in "ab"]
    for world in worlds:
        add_tell(world)
        await world.executor.execute("tell")
        await world.executor.close()
        world.journal.close()
    assert worlds[0].ran != worlds[1].ran


async def test_a_batch_that_is_repeated_makes_only_the_calls_that_are_not_done(world: World) -> None:
    async def pay(n: int) -> int:
        """Pay."""
        world.ran.append(n)
        if n == 2 and world.ran.count(2) == 1:
            raise ToolError("not now")
        return n

    world.add(pay)
    batch = [ToolCall(f"c{n}", "pay", {"n": n}, key=f"order {n}") for n in (1, 2)]
    batch += [ToolCall("c3", "pay", {"n": 3}), ToolCall("c4", "pay", {"n": 9}, key="")]
    first = await world.executor.execute_many(batch)
    again = await world.executor.execute_many([replace(call, id=f"again {call.id}") for call in batch])
    assert [(it.success, it.replayed) for it in first] == [(True, False), (False, False), (True, False), (False, False)]
    assert [(it.success, it.replayed) for it in again] == [(True, True), (True, False), (True, False), (False, False)]
    assert [it.call_id for it in again] == [f"again c{n}" for n in (1, 2, 3, 4)]
    assert [(it.key, it.result) for it in again[:3]] == [("order 1", 1), ("order 2", 2), (None, 3)]
    assert sorted(world.ran) == [1, 2, 2, 3, 3]


@pytest.mark.parametrize("at_once", [1, 4])
async def test_equal_keys_in_a_batch_are_one_call(world: World, at_once: int) -> None:
    add_act(world)
    executor = world.another_executor(limits=Limits(max_concurrency=at_once))
    results = await executor.execute_many([ToolCall(str(n), "act", {"n": 1}, key="k") for n in range(8)])
    assert world.ran == [1]
    assert [it.result for it in results] == [{"n": 1}] * 8
    assert sum(it.replayed for it in results) == 7
    await executor.close()


async def test_a_batch_with_a_key_and_without_a_journal_is_refused_for_that_call_only(world: World) -> None:
    add_act(world)
    calls = [ToolCall("a", "act", {"n": 1}, key="k"), ToolCall("b", "act", {"n": 2})]
    refused, made = await ToolExecutor(world.manager).execute_many(calls)
    assert (refused.error_kind, made.success, world.ran) == (ErrorKind.INVALID_ARGUMENTS, True, [2])


def test_a_program_without_an_event_loop_gives_keys_too(tmp_path: Path) -> None:
    world = World(tmp_path / "journal.db")
    add_act(world)
    results = [world.executor.execute_sync("act", {"n": 1}, key=key) for key in ("k", "k", None, "")]
    assert [(it.success, it.replayed) for it in results] == [(True, False), (True, True), (True, False), (False, False)]
    assert world.ran == [1, 1]
    world.journal.close()
