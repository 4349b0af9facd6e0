"""Calls that the tool of a call with a key makes: each has a key of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from support.journal_world import World, add_act
from toolrun import ToolContext, ToolError, ToolExecutor


def add_order(world: World, *steps: int, fails: int = 0) -> None:
    """A tool that makes calls of `act`, and fails the first times after it has made them."""

    async def order(context: ToolContext) -> list[Any]:
        """Order."""
        made = [(await context.call_tool("act", {"n": n})).result for n in steps]
        world.attempts += 1
        if world.attempts <= fails:
            raise ToolError("not now")
        return made

    world.add(order)


async def test_a_call_that_runs_again_does_not_repeat_the_calls_that_it_had_made(world: World) -> None:
    add_act(world)
    add_order(world, 1, 2, 1, fails=2)
    results = [await world.executor.execute("order", key="k") for _ in range(3)]
    assert [result.success for result in results] == [False, False, True]
    assert world.ran == [1, 2, 1]  # two equal calls are two steps
    assert results[2].result == [{"n": 1}, {"n": 2}, {"n": 1}]
    await world.executor.execute("order", key="other")
    assert world.ran == [1, 2, 1] * 2  # another key is another call


async def test_calls_that_a_call_without_a_key_makes_are_made_each_time(world: World) -> None:
    add_act(world)
    add_order(world, 1)
    for _ in range(2):
        assert (await world.executor.execute("order")).success
    assert world.ran == [1, 1]


async def test_calls_side_by_side_have_their_keys_whatever_their_order(world: World) -> None:
    add_act(world)
    orders = [[1, 2, 2, 3], [3, 2, 1, 2]]

    async def order(context: ToolContext) -> Any:
        """Order."""
        numbers = orders[world.attempts]
        world.attempts += 1
        made = await asyncio.gather(*(context.call_tool("act", {"n": n}) for n in numbers))
        if world.attempts == 1:
            raise ToolError("not now")
        return [(it.result, it.replayed) for it in made]

    world.add(order)
    await world.executor.execute("order", key="k")
    again = await world.executor.execute("order", key="k")
    assert again.result == [[{"n": n}, True] for n in orders[1]]
    assert sorted(world.ran) == [1, 2, 2, 3]


async def test_a_step_that_failed_and_was_made_again_is_one_step(world: World) -> None:
    async def act(n: int) -> int:
        """Act."""
        world.ran.append(n)
        if len(world.ran) == 1:
            raise ToolError("not yet")
        return n

    async def order(context: ToolContext) -> Any:
        """Order."""
        made = [await context.call_tool("act", {"n": 1}) for _ in range(2)]
        world.attempts += 1
        if world.attempts == 1:
            raise ToolError("not now")
        return [it.replayed for it in made]

    world.add(act)
    world.add(order)
    await world.executor.execute("order", key="k")
    assert world.ran == [1, 1]  # it failed, and was made
    again = await world.executor.execute("order", key="k")
    assert (again.result, world.ran) == ([True, False], [1, 1, 1])  # the second step of this attempt is a new one


async def test_a_step_in_doubt_is_not_made_again_by_who_tries_it_again(world: World) -> None:
    async def act() -> None:
        """Act."""
        world.ran.append(1)
        raise TimeoutError

    async def order(context: ToolContext) -> Any:
        """Order."""
        return [str((await context.call_tool("act")).error_kind) for _ in range(3)]

    world.add(act)
    world.add(order)
    result = await world.executor.execute("order", key="k")
    assert (result.result, world.ran) == (["timeout", "in_doubt", "in_doubt"], [1])


async def test_a_tool_in_a_thread_and_its_childrens_children_have_keys_too(world: World) -> None:
    add_act(world)

    def order(context: ToolContext) -> Any:
        """Order."""
        return context.call_tool_sync("act", {"n": 1}).result

    async def orders(context: ToolContext) -> Any:
        """Order."""
        made = await context.call_tool("order")
        world.attempts += 1
        if world.attempts == 1:
            raise ToolError("not now")
        return [made.result, made.replayed]

    world.add(order)
    world.add(orders)
    await world.executor.execute("orders", key="k")
    again = await world.executor.execute("orders", key="k")
    assert (again.result, world.ran) == ([{"n": 1}, True], [1])


async def test_a_tool_may_give_its_call_a_key_of_its_own(world: World) -> None:
    add_act(world)

    async def order(context: ToolContext, key: str) -> Any:
        """Order."""
        return (await context.call_tool("act", {"n": 1}, key=key)).replayed

    def order_in_thread(context: ToolContext, key: str) -> Any:
        """Order."""
        return context.call_tool_sync("act", {"n": 1}, key=key).replayed

    world.add(order)
    world.add(order_in_thread)
    for name, key, is_replayed in (
        ("order", "a", False),
        ("order", "a", True),
        ("order_in_thread", "a", True),
        ("order_in_thread", "b", False),
    ):
        assert (await world.executor.execute(name, {"key": key})).result is is_replayed
    assert world.ran == [1, 1]


async def test_an_executor_without_a_journal_makes_calls_of_a_tool_with_a_key_as_ever(world: World) -> None:
    add_act(world)
    bare = ToolExecutor(world.manager)

    async def order() -> Any:
        """Order."""
        return (await bare.execute("act", {"n": 1})).result

    world.add(order)
    assert (await world.executor.execute("order", key="k")).result == {"n": 1}
    await bare.close()
