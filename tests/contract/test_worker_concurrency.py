"""A worker with `--concurrency` runs its calls at the same time. Real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worker_process import WorkerProcess, worker_of, write_script

STREAMS = """
    import asyncio
    import itertools

    async def later(count):
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    def threaded(count: int):
        return iter(range(count))

    def threaded_async(count: int):
        return later(count)

    async def inline(count: int):
        return iter(range(count))

    async def inline_async(count: int):
        return later(count)

    async def suspended(count: int):
        await asyncio.sleep(0)
        return iter(range(count))

    async def suspended_async(count: int):
        await asyncio.sleep(0)
        return later(count)

    __all__ = ["inline", "inline_async", "suspended", "suspended_async", "threaded", "threaded_async"]
"""
SCRIPT = """
    import asyncio
    import os
    import threading
    from toolrun_sdk import config, log, progress, secrets

    LIMIT = 30
    barrier = threading.Barrier(2)
    arrived = []
    both = asyncio.Event()

    def meet(a: int):
        barrier.wait(LIMIT)
        return a

    async def meet_async(a: int):
        arrived.append(a)
        if len(arrived) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), LIMIT)
        return a

    def fail_sync(code: int):
        raise SystemExit(code)

    async def fail(code: int):
        raise SystemExit(code)

    async def fail_inside():
        async def inner():
            raise KeyboardInterrupt
        await asyncio.gather(inner())

    async def fail_many(names: list[str]):
        if not hasattr(asyncio, "TaskGroup"):
            raise ValueError(names[0])
        async with asyncio.TaskGroup() as group:
            group.create_task(raising(names[0]))

    async def raising(name: str):
        raise ValueError(name)

    async def forever(say: bool = True):
        if say:
            progress(1, 2, "begun")
        try:
            await asyncio.Event().wait()
        finally:
            log.info("ended")

    async def stubborn():
        progress(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done anyway"

    def block():
        progress(1)
        barrier.wait(LIMIT)
        return "unblocked"

    def hang():
        progress(1)
        threading.Event().wait()

    async def whose():
        arrived.append(config["name"])
        if len(arrived) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), LIMIT)
        in_thread = await asyncio.to_thread(lambda: secrets["key"])
        return [config["name"], in_thread, dict(secrets)]

    def whose_sync():
        barrier.wait(LIMIT)
        return [config["name"], secrets["key"]]

    def indirect(a: int):
        return meet_async(a)

    async def stop():
        asyncio.get_running_loop().stop()
        return "stopped"

    def threads():
        return threading.active_count()

    def late():
        started, finished = threading.Event(), threading.Event()
        import contextvars
        context = contextvars.copy_context()
        def go():
            started.wait(LIMIT)
            progress(9)
        thread = threading.Thread(target=context.run, args=(go,))
        thread.start()
        late_threads.append((started, thread))
        return "early"

    late_threads = []

    def wake_late():
        started, thread = late_threads.pop()
        started.set()
        thread.join(LIMIT)
        return "woken"
"""


@pytest.fixture(params=[(), ("-S",)], ids=["with orjson", "standard library"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkerProcess]:
    with worker_of(write_script(tmp_path, SCRIPT), "--concurrency", "2", python=request.param) as worker:
        yield worker


def results(worker: WorkerProcess, count: int) -> dict[int, object]:
    answers = [worker.answer() for _ in range(count)]
    assert [answer["error"] for answer in answers] == [None] * count
    return {answer["id"]: answer["result"] for answer in answers}


@pytest.mark.parametrize("function", ["meet", "meet_async", "indirect"])
def test_two_calls_run_at_the_same_time(worker: WorkerProcess, function: str) -> None:
    worker.request(1, function, kwargs={"a": 10})
    worker.request(2, function, kwargs={"a": 20.0})
    assert results(worker, 2) == {1: 10, 2: 20}


def test_two_requests_in_one_write_are_two_calls(worker: WorkerProcess) -> None:
    line = b'{"id":%d,"function":"meet","kwargs":{"a":%d}}\n'
    worker.send(line % (1, 10) + line % (2, 20))
    assert results(worker, 2) == {1: 10, 2: 20}


def test_config_and_secrets_are_those_of_the_call_in_tasks_and_their_threads(worker: WorkerProcess) -> None:
    for number, name in enumerate("ab"):
        worker.request(number, "whose", config={"name": name}, secrets={"key": name * 2})
    assert results(worker, 2) == {0: ["a", "aa", {"key": "aa"}], 1: ["b", "bb", {"key": "bb"}]}


def test_config_and_secrets_are_those_of_the_call_in_threads(worker: WorkerProcess) -> None:
    for number, name in enumerate("ab"):
        worker.request(number, "whose_sync", config={"name": name}, secrets={"key": name * 2})
    assert results(worker, 2) == {0: ["a", "aa"], 1: ["b", "bb"]}


@pytest.mark.parametrize("function", ["fail", "fail_sync"])
def test_an_exit_of_one_call_leaves_the_others_alone(worker: WorkerProcess, function: str) -> None:
    worker.request(1, "meet_async", kwargs={"a": 10})
    worker.request(2, function, kwargs={"code": 3})
    assert worker.failure() == (["builtins.SystemExit"], "3")
    worker.request(3, "meet_async", kwargs={"a": 20})
    assert results(worker, 2) == {1: 10, 3: 20}


def test_an_exit_in_a_task_of_the_tools_own_is_its_answer(worker: WorkerProcess) -> None:
    worker.request(1, "fail_inside")
    assert worker.failure() == (["builtins.KeyboardInterrupt"], "KeyboardInterrupt")
    assert worker.call("stop") == "stopped"
    assert worker.call("stop") == "stopped"


def test_the_single_failure_of_a_group_is_the_answer(worker: WorkerProcess) -> None:
    worker.request(1, "fail_many", kwargs={"names": ["lost"]})
    raised, message = worker.failure()
    assert (raised[0], message) == ("builtins.ValueError", "lost")


@pytest.mark.parametrize("kwargs", [{"b": 1}, {"a": "x"}, {}])
@pytest.mark.parametrize("function", ["meet", "meet_async"])
def test_invalid_arguments_are_refused(worker: WorkerProcess, function: str, kwargs: dict[str, object]) -> None:
    worker.request(1, function, kwargs=kwargs)
    raised, message = worker.failure()
    assert raised == ["toolrun.InvalidArguments"]
    assert message.startswith("Invalid parameters: ")


def test_a_cancelled_async_call_ends_and_is_answered(worker: WorkerProcess) -> None:
    worker.request(1, "forever")
    assert worker.receive() == {"id": 1, "progress": {"progress": 1, "total": 2, "message": "begun"}}
    worker.send(b'{"id":1,"cancel":true}\n{"id":9,"cancel":true}\n')
    raised, _ = worker.failure()
    assert raised[0] == "asyncio.exceptions.CancelledError"
    records = [json.loads(line) for line in worker.end()[1].splitlines()]
    assert {"level": "info", "message": "ended", "fields": {}, "call": 1} in records


def test_a_call_that_is_cancelled_before_it_began_is_answered(worker: WorkerProcess) -> None:
    worker.send(b'{"id":1,"function":"forever","kwargs":{"say":false}}\n{"id":1,"cancel":true}\n')
    assert worker.failure()[0][0] == "asyncio.exceptions.CancelledError"


def test_a_call_that_does_not_heed_its_cancellation_keeps_its_answer(worker: WorkerProcess) -> None:
    worker.request(1, "stubborn")
    worker.receive()
    worker.send(b'{"id":1,"cancel":true}\n')
    assert worker.answer() == {"id": 1, "result": "done anyway", "error": None}


def test_a_call_that_waits_for_a_thread_can_be_cancelled(worker: WorkerProcess) -> None:
    worker.request(1, "hang")
    worker.request(2, "hang")
    assert {worker.receive()["id"], worker.receive()["id"]} == {1, 2}
    worker.request(3, "meet", kwargs={"a": 1})
    worker.send(b'{"id":1,"cancel":true}\n{"id":3,"cancel":true}\n')
    assert worker.receive()["id"] == 3
    assert worker.answer()["id"] == 3


def test_no_more_threads_are_started_than_calls_run(worker: WorkerProcess) -> None:
    assert [worker.call("threads") for _ in range(3)][-1] <= 3
    worker.request(1, "block")
    worker.receive()
    worker.request(2, "block")
    assert worker.receive()["id"] == 2
    assert results(worker, 2) == {1: "unblocked", 2: "unblocked"}


def test_progress_after_the_answer_goes_nowhere(worker: WorkerProcess) -> None:
    assert worker.call("late") == "early"
    assert worker.call("wake_late") == "woken"


def test_the_end_of_the_input_ends_the_process_whatever_is_running(worker: WorkerProcess) -> None:
    worker.request(1, "hang")
    worker.request(2, "forever")
    assert {worker.receive()["id"], worker.receive()["id"]} == {1, 2}
    assert worker.end()[0] == 0


@pytest.mark.parametrize("options", [(), ("--concurrency", "2")], ids=["serial", "concurrent"])
def test_what_functions_yield_is_collected_within_limits(tmp_path: Path, options: tuple[str, ...]) -> None:
    names = ["inline", "inline_async", "suspended", "suspended_async", "threaded", "threaded_async"]
    with worker_of(write_script(tmp_path, STREAMS), *options) as worker:
        for number, name in enumerate(names):
            worker.request(number, name, kwargs={"count": 3})
            assert worker.receive() == {"id": number, "result": [0, 1, 2], "error": None}
        for number, name in enumerate(names):
            worker.request(number, name, kwargs={"count": 10_001})
            assert worker.receive()["raised"][0].endswith("EndlessStreamError")
            assert "more than 10,000 items" in worker.receive()["error"]


FORGETFUL = """
import asyncio

async def five():
    await asyncio.sleep(0)
    return 5

async def inline():
    return five()

async def suspended():
    await asyncio.sleep(0)
    return five()

async def twice():
    return inline()

def threaded():
    return inline()
"""


@pytest.mark.parametrize("options", [(), ("--concurrency", "2")], ids=["serial", "concurrent"])
def test_what_functions_return_without_awaiting_it_is_awaited(tmp_path: Path, options: tuple[str, ...]) -> None:
    with worker_of(write_script(tmp_path, FORGETFUL), *options) as worker:
        for number, name in enumerate(["inline", "suspended", "twice", "threaded"]):
            worker.request(number, name)
            assert worker.receive() == {"id": number, "result": 5, "error": None}, name
