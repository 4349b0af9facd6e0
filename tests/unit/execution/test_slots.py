"""Who gets a slot: batches, queues, the concurrency of a tool, and calls that are made inside of calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from support.waiting import until
from toolrun import (
    ErrorKind,
    Limits,
    SideEffects,
    ToolCall,
    ToolContext,
    ToolExecutor,
    ToolManager,
    ToolSettings,
    tool,
)


async def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


async def test_a_batch_is_answered_in_order_run_side_by_side_and_never_overloads_itself() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_concurrency=3, max_queue=0))
    running, most = 0, 0

    @executor.manager.add
    async def work(n: int) -> int:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(n % 3 + 1):
            await asyncio.sleep(0)
        running -= 1
        return n

    calls = [ToolCall(str(n), "work", {"n": n}) for n in range(20)]
    results = await executor.execute_many([*calls, ToolCall("x", "nope")])
    assert [result.result for result in results[:20]] == list(range(20))
    assert [result.call_id for result in results] == [call.id for call in calls] + ["x"]
    assert results[20].error_kind is ErrorKind.UNKNOWN_TOOL
    assert most == 3
    await executor.close()


async def test_calls_beyond_the_limit_wait_and_beyond_the_queue_they_are_refused() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_concurrency=1, max_queue=1))
    release = asyncio.Event()

    @executor.manager.add
    async def waits() -> str:
        """Wait."""
        await release.wait()
        return "done"

    first = asyncio.create_task(executor.execute("waits"))
    second = asyncio.create_task(executor.execute("waits"))
    await until(lambda: executor.health().queued == 1)
    third = await executor.execute("waits")
    assert third.error_kind is ErrorKind.OVERLOADED
    assert third.side_effects is SideEffects.NOT_STARTED
    release.set()
    assert [(await first).result, (await second).result] == ["done", "done"]
    assert (executor.health().running, executor.health().queued) == (0, 0)
    await executor.close()


async def test_the_wait_in_the_queue_counts_against_the_deadline_and_the_place_is_not_lost() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_concurrency=1))
    release = asyncio.Event()

    @executor.manager.add
    async def waits() -> str:
        """Wait."""
        await release.wait()
        return "done"

    first = asyncio.create_task(executor.execute("waits"))
    await until(lambda: executor.health().running == 1)
    late = await executor.execute("waits", timeout=0.01)
    assert late.error_kind is ErrorKind.TIMEOUT
    assert late.side_effects is SideEffects.NOT_STARTED
    cancelled = asyncio.create_task(executor.execute("waits"))
    await until(lambda: executor.health().queued == 1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    release.set()
    assert (await first).success
    assert (await executor.execute("waits")).success
    await executor.close()


async def test_the_slot_of_a_tool_stays_taken_until_its_body_has_ended() -> None:
    """A tool that may run once at a time must not run twice because its first call was given up."""
    executor = ToolExecutor(ToolManager(), settings={"blocks": ToolSettings(concurrency=1)})
    release = threading.Event()
    inside = []

    @executor.manager.add
    def blocks() -> None:
        """Block."""
        inside.append(1)
        assert len(inside) == 1
        release.wait(10)
        inside.pop()

    assert (await executor.execute("blocks", timeout=0.01)).error_kind is ErrorKind.TIMEOUT
    assert (await executor.execute("blocks", timeout=0.01)).side_effects is SideEffects.NOT_STARTED
    release.set()
    assert (await executor.execute("blocks")).success
    await executor.close()


async def test_a_tool_that_calls_tools_does_not_wait_for_its_own_place() -> None:
    executor = ToolExecutor(ToolManager([add]), limits=Limits(max_concurrency=1))

    @executor.manager.add
    async def outer(context: ToolContext) -> int:
        """Call add."""
        await asyncio.sleep(0)
        result = await context.call_tool("add", {"a": 1})
        assert isinstance(result.result, int)
        return result.result

    assert (await executor.execute("outer")).result == 2
    await executor.close()


async def test_a_call_inside_a_call_ends_at_the_outer_deadline(executor: ToolExecutor) -> None:
    inner: list[float] = []

    @executor.manager.add
    async def leaf(context: ToolContext) -> None:
        """Note the time left."""
        inner.append(context.remaining())

    @executor.manager.add
    async def outer(context: ToolContext) -> None:
        """Call leaf with much time."""
        await context.call_tool("leaf", timeout=1000)

    await executor.execute("outer", timeout=3)
    assert inner[0] <= 3


def self_calling(*chain: str) -> list[Any]:
    """Tools of which each calls the next, and the last the first."""

    def made(name: str, following: str) -> Any:
        async def calls(context: ToolContext) -> str:
            inner = await context.call_tool(following)
            return inner.error or str(inner.result)

        return tool(name=name, description="Call the next.")(calls)

    return [made(name, chain[(at + 1) % len(chain)]) for at, name in enumerate(chain)]


@pytest.mark.parametrize("chain", [("a",), ("a", "b"), ("a", "b", "c")], ids="".join)
async def test_a_tool_that_calls_itself_beyond_its_concurrency_is_told_at_once(chain: tuple[str, ...]) -> None:
    settings = {name: ToolSettings(concurrency=1) for name in chain}
    executor = ToolExecutor(ToolManager(self_calling(*chain)), 3600, settings=settings)
    async with asyncio.timeout(10):
        result = await executor.execute("a")
    assert "Tool 'a' would wait for itself" in str(result.result)
    async with asyncio.timeout(10):  # also calls that come in through different tools, and wait for each other
        results = await asyncio.gather(*(executor.execute(name) for name in chain))
    assert any("would wait for itself" in str(it.result) for it in results)
    await executor.close()


async def test_a_blocking_tool_that_calls_itself_beyond_its_concurrency_is_told_at_once() -> None:
    def again(context: ToolContext) -> str:
        """Call itself in both ways that a blocking tool has."""
        return f"{context.call_tool_sync('again').error} {executor.execute_sync('again').error}"

    executor = ToolExecutor(ToolManager([again]), 3600, settings={"again": ToolSettings(concurrency=1)})
    async with asyncio.timeout(10):
        result = await executor.execute("again")
    assert str(result.result).count("would wait for itself") == 2
    await executor.close()


async def test_a_call_made_by_a_tool_waits_for_another_that_will_end() -> None:
    release = asyncio.Event()

    async def once() -> str:
        """Wait."""
        await release.wait()
        return "done"

    async def outer(context: ToolContext) -> str:
        """Call once."""
        asyncio.get_running_loop().call_soon(release.set)
        return str((await context.call_tool("once")).result)

    executor = ToolExecutor(ToolManager([once, outer]), settings={"once": ToolSettings(concurrency=1)})
    first = asyncio.create_task(executor.execute("once"))
    await asyncio.sleep(0)
    assert (await executor.execute("outer")).result == "done"
    assert (await first).result == "done"
    await executor.close()
