"""Threads of our own: reused, abandoned and counted, never waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from types import SimpleNamespace
from typing import Any, cast

import pytest

from toolrun.execution.thread import Job, Threads

VARIABLE: ContextVar[str] = ContextVar("variable", default="unset")


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.close()


def job(function: Callable[[object], object], argument: object = None, name: str = "t") -> Job:
    return Job(name, function, argument, copy_context(), asyncio.get_running_loop().create_future())


async def outcome(threads: Threads, made: Job) -> tuple[object, BaseException | None]:
    threads.start(made)
    return await asyncio.wait_for(made.outcome, 10)


def ident(argument: object) -> int:
    return threading.get_ident()


async def test_a_job_runs_in_a_thread_with_its_argument_and_the_callers_context(threads: Threads) -> None:
    VARIABLE.set("caller")

    def work(argument: object) -> object:
        seen = VARIABLE.get()
        VARIABLE.set("changed")
        return argument, seen, threading.current_thread().name, threading.current_thread().daemon

    assert await outcome(threads, job(work, 7)) == ((7, "caller", "toolrun", True), None)
    assert VARIABLE.get() == "caller"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_whatever_a_job_raises_is_its_outcome_and_the_thread_goes_on(
    threads: Threads, error: BaseException
) -> None:
    def work(argument: object) -> object:
        raise error

    first, _ = await outcome(threads, job(ident))
    assert await outcome(threads, job(work)) == (None, error)
    assert await outcome(threads, job(ident)) == (first, None)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_whatever_finalising_raises_is_the_outcome_and_the_thread_goes_on(
    threads: Threads, error: BaseException
) -> None:
    def finalise(value: object, raised: BaseException | None) -> tuple[object, BaseException | None]:
        raise error

    first, _ = await outcome(threads, job(ident))
    made = job(ident)
    made.finalise = finalise
    assert await outcome(threads, made) == (None, error)
    assert await outcome(threads, job(ident)) == (first, None)


async def test_an_idle_thread_is_used_again_and_a_busy_one_is_not_waited_for(threads: Threads) -> None:
    used = {(await outcome(threads, job(ident)))[0] for _ in range(20)}
    assert len(used) == 1
    together = threading.Barrier(5)

    def meet(argument: object) -> object:
        together.wait(10)
        return threading.get_ident()

    jobs = [job(meet) for _ in range(5)]
    assert len({value for value, _ in await asyncio.gather(*(outcome(threads, it) for it in jobs))}) == 5


async def test_closing_ends_idle_threads_and_busy_ones_after_their_job() -> None:
    threads = Threads()
    release, started = threading.Event(), threading.Event()
    mine: list[threading.Thread] = []

    def work(argument: object) -> str:
        mine.append(threading.current_thread())
        started.set()
        release.wait(10)
        return "done"

    busy = job(work)
    threads.start(busy)
    started.wait(10)
    (idle, _) = await outcome(threads, job(lambda argument: threading.current_thread()))
    assert isinstance(idle, threading.Thread)
    threads.close()
    idle.join(10)
    assert not idle.is_alive()
    assert mine[0].is_alive()
    release.set()
    assert await asyncio.wait_for(busy.outcome, 10) == ("done", None)
    mine[0].join(10)
    assert not mine[0].is_alive()


async def test_an_abandoned_job_is_counted_until_it_ends_and_its_end_is_told(threads: Threads) -> None:
    release, ended = threading.Event(), [asyncio.Event() for _ in range(3)]

    def work(argument: object) -> None:
        release.wait(10)

    jobs = [job(work, name="slow"), job(work, name="slow"), job(work, name="other")]
    for it, event in zip(jobs, ended, strict=True):
        it.on_end = event.set
        threads.start(it)
        threads.abandon(it)
        threads.abandon(it)
    assert threads.abandoned == 3
    assert threads.abandoned_by_tool() == {"slow": 2, "other": 1}
    release.set()
    for event in ended:
        await asyncio.wait_for(event.wait(), 10)
    assert (threads.abandoned, threads.abandoned_by_tool()) == (0, {})


async def test_a_job_that_ends_as_it_is_abandoned_is_not_counted(threads: Threads) -> None:
    """The deadline passes while the outcome is already on its way to the loop."""
    ended = asyncio.Event()
    made = job(ident)
    made.on_end = ended.set
    made.outcome.set_result((None, TimeoutError()))  # the deadline has answered
    threads.start(made)
    await asyncio.wait_for(ended.wait(), 10)
    threads.abandon(made)
    assert (threads.abandoned, threads.abandoned_by_tool()) == (0, {})


async def test_the_count_is_right_however_the_ends_and_the_deadlines_race(threads: Threads) -> None:
    for _ in range(200):
        jobs = [job(ident) for _ in range(4)]
        for it in jobs:
            threads.start(it)
        for it in jobs:
            threads.abandon(it)
        await asyncio.gather(*(asyncio.wait_for(it.outcome, 10) for it in jobs))
        assert threads.abandoned == 0
    assert threads.abandoned_by_tool() == {}


def test_the_loop_is_told_of_the_end_of_an_abandoned_job_before_anybody_can_see_it() -> None:
    """Whoever waits until the job is not counted any more may rely on what the loop does about its end."""
    threads, release, told, seen = Threads(), threading.Event(), threading.Event(), threading.Event()

    def get_loop() -> object:
        seen.wait(0.2)  # there is time to look, if the count is right already
        return SimpleNamespace(call_soon_threadsafe=lambda *_: told.set())

    outcome = cast(Any, SimpleNamespace(get_loop=get_loop))
    made = Job("slow", lambda _: release.wait(10), None, copy_context(), outcome)
    threads.start(made)
    threads.abandon(made)
    release.set()
    while threads.abandoned_by_tool():
        pass
    was_told = told.is_set()
    seen.set()
    threads.close()
    assert was_told


def test_the_end_of_a_job_whose_loop_is_gone_disturbs_nobody() -> None:
    threads = Threads()
    release = threading.Event()

    async def begin() -> Job:
        made = job(lambda argument: release.wait(10))
        threads.start(made)
        threads.abandon(made)
        return made

    made = asyncio.run(begin())
    release.set()
    threads.close()
    for thread in threading.enumerate():
        if thread.name == "toolrun":
            thread.join(10)
    assert made.finished
    assert threads.abandoned == 0
