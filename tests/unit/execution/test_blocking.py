"""The bridge for callers without an event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from toolrun import ErrorKind, Progress, ToolContext, ToolExecutor, ToolManager, UsageError
from toolrun.execution.blocking import run_blocking


async def where() -> str:
    """Say in which thread the loop runs."""
    await asyncio.sleep(0)
    return threading.current_thread().name


def blocking(n: int) -> int:
    """Block."""
    return n + 1


async def report(context: ToolContext) -> None:
    """Report."""
    context.progress(1, 2)
    await asyncio.sleep(0)


@pytest.fixture
def tools() -> ToolManager:
    return ToolManager([where, blocking, report])


@pytest.fixture
def lone(tools: ToolManager) -> Iterator[ToolExecutor]:
    """An executor in a program without an event loop."""
    executor = ToolExecutor(tools)
    yield executor
    asyncio.run(executor.close())


def test_a_program_without_a_loop_gets_its_answers(lone: ToolExecutor) -> None:
    assert lone.execute_sync("where").result == "toolrun-loop"
    assert lone.execute_sync("blocking", '{"n": 1}', call_id="c").call_id == "c"
    assert lone.execute_sync("blocking", {"n": "1"}).result == 2
    assert lone.execute_sync("nobody").error_kind is ErrorKind.UNKNOWN_TOOL
    seen: list[Progress] = []
    lone.execute_sync("report", on_progress=seen.append)
    assert seen == [Progress(1, 2)]


def test_a_deadline_holds_there_too(lone: ToolExecutor) -> None:
    release = threading.Event()

    @lone.manager.add
    def hangs() -> None:
        """Hang."""
        release.wait(10)

    assert lone.execute_sync("hangs", timeout=0.01).error_kind is ErrorKind.TIMEOUT
    release.set()


def test_many_threads_may_call_at_once(lone: ToolExecutor) -> None:
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(lone.execute_sync("blocking", {"n": n}).result))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(map(str, results)) == sorted(str(n + 1) for n in range(8))


async def test_a_thread_beside_the_executors_loop_is_answered_from_that_loop(tools: ToolManager) -> None:
    executor = ToolExecutor(tools)
    home = threading.current_thread().name
    assert (await executor.execute("where")).result == home
    assert (await asyncio.to_thread(executor.execute_sync, "where")).result == home
    assert (await asyncio.to_thread(executor.execute_sync, "blocking", {"n": 1})).result == 2
    await executor.close()


async def test_inside_a_running_loop_it_is_refused_and_nothing_is_left_unawaited(tools: ToolManager) -> None:
    executor = ToolExecutor(tools)
    with pytest.raises(UsageError, match=r"would block the event loop that runs here; use 'await executor.execute"):
        executor.execute_sync("where")
    gc.collect()  # a coroutine that was never awaited warns when it is collected, and warnings are errors here
    await executor.close()


def test_what_the_coroutine_raises_is_raised_to_the_caller() -> None:
    async def fails() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        run_blocking(fails(), None)


async def test_a_loop_that_has_ended_is_not_waited_for() -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    assert await asyncio.to_thread(lambda: run_blocking(where(), ended)) == "toolrun-loop"
