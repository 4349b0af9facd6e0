"""What a running tool knows of its call, and may ask of its host."""

from __future__ import annotations

import asyncio
import logging
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolrun import Progress, ToolContext, ToolError, ToolExecutor, UsageError, tool
from toolrun.tools.context import Call, current_call, running_context


async def leaf(n: int = 0) -> int:
    """Return a number."""
    await asyncio.sleep(0)
    return n


def test_a_context_can_be_made_for_a_test_of_a_tool() -> None:
    context = ToolContext(config={"units": "metric"}, secrets={"KEY": "s3cret"})
    assert (context.config["units"], context.secrets["KEY"], context.call_id) == ("metric", "s3cret", "")
    assert context.remaining() == float("inf")
    context.progress(1)
    assert context.logger.name == "toolrun.tool"
    assert "s3cret" not in repr(context)


async def test_a_context_without_a_call_calls_no_tools() -> None:
    context = ToolContext()
    with pytest.raises(UsageError, match="belongs to no call"):
        await context.call_tool("leaf")
    with pytest.raises(UsageError, match="belongs to no call"):
        context.call_tool_sync("leaf")


def test_a_tool_that_needs_a_context_says_so_when_it_is_run_without_an_executor() -> None:
    @tool
    def aware(context: ToolContext) -> str:
        """Look around."""
        return context.tool_name

    with pytest.raises(UsageError, match=r"run it through ToolExecutor\.execute"):
        aware.invoke({})
    assert aware(ToolContext(tool_name="by hand")) == "by hand"


async def test_a_tool_sees_its_call_and_nobody_else_does(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def aware(context: ToolContext) -> list[object]:
        """Look around."""
        assert running_context().call_id == context.call_id
        return [context.call_id, context.tool_name, context.logger.name, 0 < context.remaining() <= 2]

    result = await executor.execute("aware", call_id="c-1", timeout=2)
    assert result.result == ["c-1", "aware", "toolrun.tool.aware", True]
    assert current_call.get() is None
    with pytest.raises(UsageError):
        running_context()


async def test_the_ids_that_a_call_gets_are_unique_and_stay(executor: ToolExecutor) -> None:
    calls = [Call(executor, "leaf", {}, None) for _ in range(3)]
    assert len({call.id for call in calls}) == 3
    assert [call.id for call in calls] == [call.id for call in calls]
    assert Call(executor, "leaf", {}, "mine").id == "mine"


async def test_every_call_has_an_idempotency_key_of_its_own_that_stays(executor: ToolExecutor) -> None:
    @executor.manager.add
    def aware(context: ToolContext) -> list[str]:
        """Look around."""
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(lambda: context.idempotency_key) for _ in range(20)]
        return [context.idempotency_key, running_context().idempotency_key, *(it.result() for it in asked)]

    results = [(await executor.execute("aware", call_id="same")).result for _ in range(3)]
    keys = [set(result) for result in results if isinstance(result, list)]
    assert [len(it) for it in keys] == [1, 1, 1]
    assert len(set.union(*keys)) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", str(key)) for key in set.union(*keys))
    assert ToolContext().idempotency_key == ""


async def test_tools_call_tools_from_the_loop_and_from_a_thread(executor: ToolExecutor) -> None:
    executor.manager.add(leaf)

    @executor.manager.add
    async def on_the_loop(context: ToolContext) -> object:
        """Call."""
        return (await context.call_tool("leaf", {"n": "7"})).result

    @executor.manager.add
    def in_a_thread(context: ToolContext) -> object:
        """Call."""
        return context.call_tool_sync("on_the_loop").result

    assert (await executor.execute("on_the_loop")).result == 7
    assert (await executor.execute("in_a_thread")).result == 7


@pytest.mark.parametrize("blocking", [False, True])
async def test_the_failure_of_an_inner_call_is_an_answer_for_the_outer_tool(
    executor: ToolExecutor, blocking: bool
) -> None:
    async def on_the_loop(context: ToolContext) -> str:
        """Call what is not there."""
        return (await context.call_tool("nobody")).text

    def in_a_thread(context: ToolContext) -> str:
        """Call what is not there."""
        return context.call_tool_sync("nobody").text

    executor.manager.add(tool(name="outer")(in_a_thread if blocking else on_the_loop))
    assert str((await executor.execute("outer")).result).startswith('Error: Unknown tool "nobody"')


@pytest.mark.parametrize("inline", [False, True])
async def test_calling_a_tool_synchronously_on_the_loop_is_refused_at_once(
    executor: ToolExecutor, inline: bool
) -> None:
    """It would block the loop that has to run the other tool: for ever."""
    executor.manager.add(leaf)

    async def on_the_loop(context: ToolContext) -> None:
        """Call."""
        await asyncio.sleep(0)
        context.call_tool_sync("leaf")

    def at_once(context: ToolContext) -> None:
        """Call."""
        context.call_tool_sync("leaf")

    executor.manager.add(tool(name="outer", inline=inline)(at_once if inline else on_the_loop))
    result = await executor.execute("outer")
    assert result.error == "call_tool_sync would block the event loop; use 'await context.call_tool(…)'"


@pytest.mark.parametrize("blocking", [False, True])
async def test_an_inner_call_ends_at_the_outer_deadline(executor: ToolExecutor, blocking: bool) -> None:
    @executor.manager.add
    async def remaining(context: ToolContext) -> float:
        """Say how much time is left."""
        return context.remaining()

    async def on_the_loop(context: ToolContext) -> object:
        """Call with more time than there is."""
        return (await context.call_tool("remaining", timeout=1000)).result

    def in_a_thread(context: ToolContext) -> object:
        """Call with more time than there is."""
        return context.call_tool_sync("remaining", timeout=1000).result

    executor.manager.add(tool(name="outer")(in_a_thread if blocking else on_the_loop))
    left = (await executor.execute("outer", timeout=3)).result
    assert isinstance(left, float)
    assert left <= 3


async def test_progress_of_an_inline_tool_is_told_at_once(executor: ToolExecutor) -> None:
    seen: list[Progress] = []

    @tool(inline=True)
    def steps(context: ToolContext) -> int:
        """Go on."""
        context.progress(1, 3, "first")
        context.progress(2)
        return len(seen)

    executor.manager.add(steps)
    assert (await executor.execute("steps", on_progress=seen.append)).result == 2
    assert seen == [Progress(1, 3, "first"), Progress(2, None, "")]
    assert (await executor.execute("steps")).success, "nobody need listen"


async def test_a_listener_that_fails_is_logged_and_does_not_fail_the_call(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(inline=True)
    def steps(context: ToolContext) -> None:
        """Go on."""
        context.progress(1)

    def listen(progress: Progress) -> None:
        raise ToolError("not now")

    executor.manager.add(steps)
    assert (await executor.execute("steps", on_progress=listen)).success
    assert [(it.levelno, it.message) for it in caplog.records] == [(logging.WARNING, "a progress listener failed")]
