"""What ends a call before its tool has ended: its deadline, and the cancellation of its caller."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from support.waiting import until
from toolrun import (
    ErrorKind,
    Limits,
    Observer,
    SideEffects,
    ToolExecutor,
    ToolManager,
    ToolResult,
    tool,
)
from toolrun.tools.context import Call


async def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


async def test_an_async_tool_is_cancelled_at_its_deadline(executor: ToolExecutor) -> None:
    cancelled = asyncio.Event()

    @executor.manager.add
    async def hangs() -> None:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    result = await executor.execute("hangs", timeout=0.01)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.error == "Tool 'hangs' timed out after 0.01 s"
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_a_tool_that_swallows_its_cancellation_does_not_hold_the_answer_back(executor: ToolExecutor) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    @executor.manager.add
    async def stubborn() -> str:
        """Go on whatever happens."""
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        ended.set()
        return "too late"

    result = await executor.execute("stubborn", timeout=0.01)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert executor.health().lingering == 1
    release.set()
    await asyncio.wait_for(ended.wait(), 5)
    await asyncio.sleep(0)
    assert executor.health().lingering == 0


async def test_the_tools_own_time_out_inside_never_reaches_the_caller(executor: ToolExecutor) -> None:
    """A scope that the tool opened before it was given up must not cancel whoever called it."""
    given_up, fired = asyncio.Event(), asyncio.Event()

    @executor.manager.add
    async def scoped() -> None:
        """Wait, with a time-out of its own that fires after the answer."""
        try:
            async with asyncio.timeout(0.05):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    given_up.set()
                await asyncio.Event().wait()
        except (TimeoutError, asyncio.CancelledError):
            fired.set()

    assert (await executor.execute("scoped", timeout=0.01)).error_kind is ErrorKind.TIMEOUT
    await asyncio.wait_for(given_up.wait(), 5)
    await asyncio.wait_for(fired.wait(), 5)  # it hit the tool's task, and not this one


async def test_a_blocking_tool_is_abandoned_at_its_deadline_counted_and_no_other_call_waits(
    executor: ToolExecutor,
) -> None:
    release = threading.Event()

    @executor.manager.add
    def blocks() -> str:
        """Block."""
        release.wait(10)
        return "late"

    executor.manager.add(add)
    result = await executor.execute("blocks", timeout=0.01)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.side_effects is SideEffects.UNKNOWN
    assert executor.health().abandoned == {"blocks": 1}
    assert (await executor.execute("add", {"a": 1})).result == 2
    release.set()
    await until(lambda: not executor.health().abandoned)


async def test_beyond_the_limit_of_abandoned_threads_blocking_calls_are_refused_and_async_ones_go_on() -> None:
    release = threading.Event()
    executor = ToolExecutor(ToolManager([add]), limits=Limits(max_abandoned=2))

    @executor.manager.add
    def blocks() -> None:
        """Block."""
        release.wait(10)

    for _ in range(2):
        assert (await executor.execute("blocks", timeout=0.01)).error_kind is ErrorKind.TIMEOUT
    refused = await executor.execute("blocks")
    assert refused.error_kind is ErrorKind.OVERLOADED
    assert "blocks (2)" in (refused.error or "")
    assert (await executor.execute("add", {"a": 1})).success
    release.set()
    await until(lambda: not executor.health().abandoned)
    assert (await executor.execute("blocks")).success
    await executor.close()


async def test_cancelling_the_caller_cancels_the_tool_and_is_raised(executor: ToolExecutor) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()
    seen: list[ToolResult] = []

    class Watcher(Observer):
        def call_finished(self, call: Call, result: ToolResult) -> None:
            seen.append(result)

    watched = ToolExecutor(ToolManager(), observers=[Watcher()])

    @watched.manager.add
    async def hangs() -> None:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(watched.execute("hangs"))
    await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 5)
    assert [result.error_kind for result in seen] == [ErrorKind.CANCELLED]
    await watched.close()


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_tool_without_await_that_cancels_the_current_task_does_not_cancel_its_caller(
    executor: ToolExecutor, times: int
) -> None:
    @executor.manager.add
    async def cancels() -> int:
        """Cancel."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()
        return 7

    @executor.manager.add
    @tool(inline=True)
    def cancels_inline() -> Any:
        """Cancel, and return something that is finalised in a thread."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()
        return {1, 2}

    caller = asyncio.current_task()
    assert caller is not None
    assert (await executor.execute("cancels")).result == 7
    assert (await executor.execute("cancels_inline")).result == [1, 2]
    await asyncio.sleep(0)
    assert caller.cancelling() == 0


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_cancellation_of_the_caller_that_came_before_such_a_tool_is_kept(
    executor: ToolExecutor, times: int
) -> None:
    @executor.manager.add
    async def cancels() -> None:
        """Cancel."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await executor.execute("cancels")
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(call())


async def cancel_later(task: asyncio.Task[Any]) -> None:
    task.cancel()


def cancel_if_there(known: weakref.ref[asyncio.Task[Any]]) -> None:
    task = known()
    if task is not None:
        task.cancel()


HAND_OVERS: dict[str, Callable[[asyncio.Task[Any]], object]] = {
    "call_soon": lambda task: asyncio.get_running_loop().call_soon(task.cancel),
    "call_later": lambda task: asyncio.get_running_loop().call_later(0, task.cancel),
    "call_at": lambda task: asyncio.get_running_loop().call_at(asyncio.get_running_loop().time(), task.cancel),
    "another thread": lambda task: asyncio.get_running_loop().call_soon_threadsafe(task.cancel),
    "another task": lambda task: asyncio.get_running_loop().create_task(cancel_later(task)),
    "a weak reference": lambda task: asyncio.get_running_loop().call_soon(cancel_if_there, weakref.ref(task)),
}


@pytest.mark.parametrize("hand_over", HAND_OVERS.values(), ids=HAND_OVERS)
@pytest.mark.parametrize("name", ["without_await", "inline", "with_await"])
async def test_a_tool_that_has_the_current_task_cancelled_later_cancels_neither_its_caller_nor_the_next_call(
    executor: ToolExecutor, hand_over: Callable[[asyncio.Task[Any]], object], name: str
) -> None:
    handed_over: list[object] = []

    def pass_on() -> int:
        task = asyncio.current_task()
        assert task is not None
        handed_over.append(hand_over(task))
        return 7

    @executor.manager.add
    async def without_await() -> int:
        """Have the task cancelled."""
        return pass_on()

    @executor.manager.add
    @tool(inline=True)
    def inline() -> int:
        """Have the task cancelled."""
        return pass_on()

    @executor.manager.add
    async def with_await(suspends: bool = False) -> int:
        """Have the task cancelled, and end without a suspension."""
        if suspends:
            await asyncio.sleep(0)
        return pass_on()

    @executor.manager.add
    async def waits() -> int:
        """Wait for some turns of the loop."""
        for _ in range(5):
            await asyncio.sleep(0)
        return 8

    caller = asyncio.current_task()
    assert caller is not None
    for _ in range(3):
        assert (await executor.execute(name)).result == 7
        following = await executor.execute("waits")
        assert (following.result, following.error) == (8, None)
    assert caller.cancelling() == 0
    await asyncio.gather(*(it for it in handed_over if isinstance(it, asyncio.Task)))
