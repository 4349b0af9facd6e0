"""The bridge for callers without an event loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.forked import in_a_child
from toolrun import (
    ErrorKind,
    Progress,
    Runtime,
    SideEffects,
    ToolContext,
    ToolExecutor,
    ToolManager,
    ToolResult,
)
from toolrun.execution.blocking import LoopEndedError, run_blocking


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


async def test_a_thread_beside_a_loop_gets_a_loop_of_our_own_unless_the_executor_belongs_to_one(
    tools: ToolManager,
) -> None:
    executor = ToolExecutor(tools)
    home = threading.current_thread().name
    assert (await executor.execute("where")).result == home
    assert (await asyncio.to_thread(executor.execute_sync, "where")).result == "toolrun-loop"
    executor.home = asyncio.get_running_loop()
    assert (await asyncio.to_thread(executor.execute_sync, "where")).result == home
    assert (await asyncio.to_thread(executor.execute_sync, "blocking", {"n": 1})).result == 2
    await executor.close()


async def test_inside_a_running_loop_the_answer_says_so_and_nothing_is_left_unawaited(tools: ToolManager) -> None:
    executor = ToolExecutor(tools)
    result = executor.execute_sync("where", call_id="c")
    assert (result.error_kind, result.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
    assert "would block the event loop that runs here; use 'await executor.execute" in str(result.error)
    assert (result.tool_name, result.call_id) == ("where", "c")
    gc.collect()  # a coroutine that was never awaited warns when it is collected, and warnings are errors here
    await executor.close()


@pytest.mark.parametrize("is_inline", [False, True])
def test_a_tool_that_stops_the_loop_ends_no_call_after_its_own(tools: ToolManager, is_inline: bool) -> None:
    executor = ToolExecutor(tools)

    async def stops() -> str:
        """Stop the loop, and go on."""
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "stopped"

    async def stops_inline() -> None:
        """Stop the loop."""
        asyncio.get_running_loop().stop()

    tools.add(stops)
    tools.add(stops_inline)

    def call() -> str:
        answers: list[object] = []
        for _ in range(3):
            own = executor.execute_sync("stops_inline" if is_inline else "stops")
            assert own.success or (own.error_kind, own.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)
            answers += [executor.execute_sync("where").result, executor.execute_sync("blocking", {"n": 1}).result]
        return str(answers)

    assert in_a_child(call) == str(["toolrun-loop", 2] * 3)  # in a child: the loop of this process stays


def test_what_the_coroutine_raises_is_raised_to_the_caller() -> None:
    async def fails() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        run_blocking(fails, None)


def test_a_loop_that_has_ended_is_not_waited_for() -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    with pytest.raises(LoopEndedError):
        run_blocking(where, ended)


def in_a_thread(function: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def work() -> None:
        try:
            found.append(function())
        except BaseException as error:  # noqa: BLE001  it must not raise anything
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
def test_a_caller_whose_loop_ends_in_another_thread_gets_an_answer(tools: ToolManager, how: str) -> None:
    executor = ToolExecutor(tools)
    entered = threading.Event()

    async def hangs() -> None:
        """Hang."""
        entered.set()
        await asyncio.Event().wait()

    executor.manager.add(hangs)
    started: list[tuple[threading.Thread, list[object]]] = []

    async def main() -> None:
        executor.home = asyncio.get_running_loop()
        started.append(in_a_thread(lambda: executor.execute_sync("hangs", timeout=3600)))
        await asyncio.to_thread(entered.wait, 10)

    if how == "cancelled":
        asyncio.run(main())
    else:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
    [(thread, found)] = started
    thread.join(10)
    [result] = found
    assert isinstance(result, ToolResult)
    assert result.error_kind in (ErrorKind.UNAVAILABLE, ErrorKind.CANCELLED)
    assert result.side_effects is SideEffects.UNKNOWN
    after = executor.execute_sync("blocking", {"n": 1})
    assert (after.error_kind, after.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)
    if how == "stopped":
        loop.run_until_complete(executor.close())
        loop.close()
    asyncio.run(executor.close())


def test_a_runtime_whose_loop_has_ended_says_so(tmp_path: Path) -> None:
    config = tmp_path / "toolrun.toml"
    config.write_text("")

    async def main() -> ToolExecutor:
        async with Runtime.open(config) as runtime:
            return runtime.executor

    result = asyncio.run(main()).execute_sync("any")
    assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)


def test_the_call_of_an_interrupted_caller_is_cancelled(lone: ToolExecutor) -> None:
    entered, ended = threading.Event(), threading.Event()

    async def hangs() -> None:
        """Hang."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    lone.manager.add(hangs)
    main = threading.main_thread().ident
    assert main is not None

    def send_signal() -> None:
        entered.wait(10)
        signal.pthread_kill(main, signal.SIGUSR1)

    thread, _ = in_a_thread(send_signal)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            lone.execute_sync("hangs", timeout=3600)
    finally:
        signal.signal(signal.SIGUSR1, before)
    thread.join(10)
    assert ended.wait(10)


def test_after_a_fork_an_executor_runs_tools_in_the_child_and_in_the_parent(lone: ToolExecutor) -> None:
    assert lone.execute_sync("blocking", {"n": 1}).result == 2
    assert lone.execute_sync("where").result == "toolrun-loop"

    def work() -> object:
        both = lone.execute_sync("blocking", {"n": 2}).result, lone.execute_sync("where").result
        return *both, asyncio.run(lone.execute("blocking", {"n": 3})).result, lone.health().abandoned

    assert in_a_child(work) == "(3, 'toolrun-loop', 4, {})"
    assert lone.execute_sync("blocking", {"n": 4}).result == 5
    assert lone.execute_sync("where").result == "toolrun-loop"


async def test_a_fork_beside_a_running_loop_does_not_disturb_that_loop(tools: ToolManager) -> None:
    executor = ToolExecutor(tools)
    assert (await executor.execute("blocking", {"n": 1})).result == 2
    child = await asyncio.to_thread(in_a_child, lambda: executor.execute_sync("blocking", {"n": 2}).result)
    assert child == "3"
    assert (await executor.execute("blocking", {"n": 3})).result == 4
    assert (await executor.execute("where")).success
    await executor.close()
