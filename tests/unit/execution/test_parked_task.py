"""A coroutine runs in a task of its own, whether or not it suspends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from toolrun.execution.parked_task import ParkedTask, ParkedTasks
from toolrun.tools.context import Call

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def same(value: object) -> object:
    return value


async def outcome_of(parked_tasks: ParkedTasks, coroutine: Coroutine[Any, Any, object]) -> object:
    started = parked_tasks.start(same, coroutine, None)
    value, error = await asyncio.wait_for(started.outcome, 5) if isinstance(started, ParkedTask) else started
    if error is not None:
        raise error
    return value


@pytest.fixture
def parked_tasks() -> Callable[[], ParkedTasks]:
    return lambda: ParkedTasks(asyncio.get_running_loop())


async def test_a_coroutine_that_never_suspends_ends_at_once_and_the_parked_task_stays_one(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()

    async def quick() -> int:
        return 42

    for _ in range(100):
        assert tasks.start(same, quick(), None) == (42, None)
    assert len(asyncio.all_tasks()) == 2  # this test and one parked task
    await tasks.close(1)
    assert len(asyncio.all_tasks()) == 1


async def test_the_identity_of_the_task_is_the_same_before_and_after_a_suspension(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()
    seen = []

    async def body() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    caller = asyncio.current_task()
    await outcome_of(tasks, body())
    assert seen[0] is seen[1]
    assert seen[0] is not caller
    assert asyncio.current_task() is caller
    await tasks.close(1)


async def test_timeouts_and_task_groups_inside_work_across_the_hand_over(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()

    async def times_out() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "not reached"

    async def groups() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, result=n)) for n in range(3)]
        return sum(task.result() for task in tasks)

    for _ in range(3):  # with a task that was just made, and with one that has been parked
        assert await outcome_of(tasks, times_out()) == "timed out"
        assert await outcome_of(tasks, groups()) == 3
        await asyncio.sleep(0)
    await tasks.close(1)


async def test_context_variables_are_a_copy_that_lasts_for_the_whole_coroutine(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()

    async def body() -> list[str]:
        seen = [VARIABLE.get()]
        token = VARIABLE.set("inside")
        await asyncio.sleep(0)
        seen.append(VARIABLE.get())
        VARIABLE.reset(token)  # raises if the context is another one
        seen.append(VARIABLE.get())
        return seen

    VARIABLE.set("outside")
    assert await outcome_of(tasks, body()) == ["outside", "inside", "outside"]
    assert VARIABLE.get() == "outside"
    await tasks.close(1)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("suspends", [False, True])
async def test_whatever_it_raises_is_the_outcome_and_does_not_end_the_loop(
    parked_tasks: Callable[[], ParkedTasks], error: BaseException, suspends: bool
) -> None:
    tasks = parked_tasks()

    async def body() -> None:
        if suspends:
            await asyncio.sleep(0)
        raise error

    with pytest.raises(type(error)):
        await outcome_of(tasks, body())
    await tasks.close(1)


async def test_a_coroutine_that_cancels_its_own_task_before_it_suspends_is_cancelled(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()

    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "not reached"

    async def cancels_itself_and_ends() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "ended"

    for _ in range(3):
        with pytest.raises(asyncio.CancelledError):
            await outcome_of(tasks, cancels_itself())
        assert await outcome_of(tasks, cancels_itself_and_ends()) == "ended"
        assert await outcome_of(tasks, asyncio.sleep(0, result="fine")) == "fine"
    await tasks.close(1)


async def test_a_plain_value_and_any_awaitable_are_taken_as_they_are(parked_tasks: Callable[[], ParkedTasks]) -> None:
    tasks = parked_tasks()

    def raises(value: object) -> object:
        raise StopIteration(value)

    assert tasks.start(same, 7, None) == (7, None)
    future = asyncio.get_running_loop().create_future()
    future.set_result("later")
    assert tasks.start(same, future, None) == ("later", None)
    started = tasks.start(raises, 7, None)
    assert isinstance(started, tuple)
    assert isinstance(started[1], RuntimeError), "a StopIteration is no value"
    await tasks.close(1)


async def test_nested_calls_each_have_their_own_task(parked_tasks: Callable[[], ParkedTasks]) -> None:
    tasks = parked_tasks()
    seen: list[asyncio.Task[Any] | None] = []

    async def nested(depth: int) -> int:
        seen.append(asyncio.current_task())
        if depth:
            value = await outcome_of(tasks, nested(depth - 1))
            assert isinstance(value, int)
            assert asyncio.current_task() is seen[-depth - 1] or seen.index(asyncio.current_task()) >= 0
            return value + 1
        return 0

    assert await outcome_of(tasks, nested(20)) == 20
    assert len(set(map(id, seen))) == 21
    await tasks.close(1)


async def test_a_swallowed_cancellation_leaves_the_parked_live_until_the_body_ends(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()
    release, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    parked = tasks.start(same, stubborn(), None)
    assert isinstance(parked, ParkedTask)
    parked.on_end = ended.set
    parked.give_up()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert parked in tasks.live
    assert not ended.is_set()
    release.set()
    await asyncio.wait_for(ended.wait(), 5)
    assert parked not in tasks.live
    await tasks.close(1)


async def test_a_coroutine_that_suspended_leaves_nothing_for_the_garbage_collector(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()

    async def body() -> int:
        await asyncio.sleep(0)
        return 42

    async def run() -> None:
        for _ in range(10):
            assert await outcome_of(tasks, body()) == 42

    def parked() -> set[ParkedTask]:
        return {it for it in gc.get_objects() if type(it) is ParkedTask}

    await run()
    gc.collect()
    gc.disable()
    others = parked()  # what other tests hold
    try:
        await run()
        await asyncio.sleep(0)
        assert parked() <= others
    finally:
        gc.enable()


async def test_giving_up_what_has_ended_changes_nothing(parked_tasks: Callable[[], ParkedTasks]) -> None:
    parked = parked_tasks().start(same, asyncio.sleep(0, 42), None)
    assert isinstance(parked, ParkedTask)
    assert await asyncio.wait_for(parked.outcome, 5) == (42, None)
    parked.give_up()
    assert parked.outcome.result() == (42, None)


async def test_closing_the_loop_under_a_parked_parked_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    def use_a_loop_and_close_it() -> None:
        loop = asyncio.new_event_loop()

        async def use() -> None:
            assert ParkedTasks(loop).start(same, _quick(), None) == (None, None)

        loop.run_until_complete(use())
        loop.close()

    await asyncio.to_thread(use_a_loop_and_close_it)
    assert capfd.readouterr().err == ""


async def _quick() -> None:
    return None


async def test_a_parked_task_cannot_be_awaited(parked_tasks: Callable[[], ParkedTasks]) -> None:
    parked = ParkedTask(asyncio.get_running_loop())
    with pytest.raises(TypeError, match="its own task"):
        await parked
    task = parked.task
    assert task is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_parked_task_that_somebody_has_cancelled_carries_no_other_coroutine(
    parked_tasks: Callable[[], ParkedTasks],
) -> None:
    tasks = parked_tasks()
    for turns in range(3):
        assert tasks.start(same, _quick(), None) == (None, None)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as programs do before they end
            task.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        assert await outcome_of(tasks, asyncio.sleep(0, result=turns)) == turns
    await tasks.close(1)


@pytest.mark.parametrize("is_inline", [False, True])
async def test_a_task_that_its_coroutine_has_passed_on_ends_with_it(
    parked_tasks: Callable[[], ParkedTasks], is_inline: bool
) -> None:
    tasks = parked_tasks()
    ended: list[str] = []
    states: weakref.WeakKeyDictionary[asyncio.Task[Any], str] = weakref.WeakKeyDictionary()
    kept: list[asyncio.Task[Any]] = []

    def run(body: Callable[[Any], Any]) -> None:
        call = Call(None, "any", {}, None)  # type: ignore[arg-type]  # nothing asks for its host
        outcome = tasks.complete(body, call) if is_inline else tasks.start(body, {}, None)
        assert outcome == (None, None)

    def task() -> asyncio.Task[Any]:
        found = asyncio.current_task()
        assert found is not None
        return found

    async def waits_for_the_end(_: object) -> None:
        task().add_done_callback(lambda _: ended.append("told"))

    async def keeps_a_state(_: object) -> None:
        assert task() not in states, "the state of another call"
        states[task()] = "own"

    async def keeps_the_task(_: object) -> None:
        assert task() not in kept
        kept.append(task())

    for body in (waits_for_the_end, keeps_a_state, keeps_the_task):
        run(body)
        run(body)
    for _ in range(3):
        await asyncio.sleep(0)
    assert ended == ["told", "told"]
    assert all(task.done() and not task.cancelled() for task in kept)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await tasks.close(1)
