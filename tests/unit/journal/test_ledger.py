"""Keys: the same call is made once."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from support.journal_world import World, add_act
from support.waiting import until
from toolrun import ErrorKind, Limits, SideEffects, ToolError, ToolExecutor
from toolrun.config.model import ToolSettings
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.journal.stored_answer import Answers
from toolrun.redaction import Redactor
from toolrun.result import Content

LIMIT = 30.0


async def test_a_key_is_run_once_and_its_answer_is_given_again(world: World) -> None:
    add_act(world)
    first = await world.executor.execute("act", {"n": 1}, key="k")
    second = await world.executor.execute("act", {"n": 1}, key="k")
    assert world.ran == [1]
    assert (first.result, first.replayed) == ({"n": 1}, False)
    assert (second.result, second.replayed) == ({"n": 1}, True)
    full = [it.to_dict(full=True) for it in (first, second)]
    assert [(it["key"], it["replayed"], it["recorded_as"]) for it in full] == [("k", False, "1-1"), ("k", True, "1-1")]
    other = await world.executor.execute("act", {"n": 1})
    assert world.ran == [1, 1]  # equal arguments are not the same call
    assert not other.replayed


async def test_of_many_at_once_with_one_key_one_runs_and_all_get_its_answer(world: World) -> None:
    add_act(world)
    results = await asyncio.gather(*(world.executor.execute("act", {"n": 1}, key="k") for _ in range(100)))
    assert world.ran == [1]
    assert [result.result for result in results] == [{"n": 1}] * 100
    assert sum(not result.replayed for result in results) == 1


async def test_a_key_survives_its_process(world: World, tmp_path: Path) -> None:
    add_act(world)
    await world.executor.execute("act", {"n": 1}, key="k")
    await world.journal.drain()
    journal = Journal(world.path)
    executor = ToolExecutor(world.manager, recorder=CallRecorder(journal))
    again = await executor.execute("act", {"n": 1}, key="k")
    assert (again.result, again.replayed, world.ran) == ({"n": 1}, True, [1])
    await executor.close()
    journal.close()


@pytest.mark.parametrize(("name", "arguments"), [("act", {"n": 2}), ("other", {"n": 1})])
async def test_a_key_for_another_call_is_refused_and_names_the_first(
    world: World, name: str, arguments: dict[str, Any]
) -> None:
    add_act(world)

    async def other(n: int) -> None:
        """Other."""
        world.ran.append("other")

    world.add(other)
    await world.executor.execute("act", {"n": 1}, key="k")
    (call,) = await world.calls()
    refused = await world.executor.execute(name, arguments, key="k")
    assert refused.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert refused.error is not None
    assert call.shown_id in refused.error
    assert world.ran == [1]


async def test_a_call_that_waited_in_vain_for_another_process_is_on_record_as_one_that_did_not_run(
    world: World,
) -> None:
    has_begun = asyncio.Event()

    async def act() -> None:
        """Act."""
        has_begun.set()
        await world.go_on.wait()

    world.add(act, effects="none")
    first = asyncio.create_task(world.executor.execute("act", key="k"))
    await asyncio.wait_for(has_begun.wait(), LIMIT)
    other = World(world.path)

    def act_at_once() -> None:
        """Act."""
        other.ran.append("inline")

    other.add(act_at_once, name="act", effects="none", inline=True)
    assert (await other.executor.execute("act", key="k", timeout=0.05)).error_kind is ErrorKind.TIMEOUT
    assert (await other.states(), other.ran) == (["started", "refused"], [])
    await other.executor.close()
    other.journal.close()
    world.go_on.set()
    assert (await first).success


async def test_a_failed_call_runs_again_under_its_key(world: World) -> None:
    async def act() -> str:
        """Act."""
        world.ran.append(1)
        if len(world.ran) < 3:
            raise ToolError("not now")
        return "done"

    world.add(act)
    results = [await world.executor.execute("act", key="k") for _ in range(4)]
    assert [result.success for result in results] == [False, False, True, True]
    assert [result.replayed for result in results] == [False, False, False, True]
    assert [(call.state, call.attempt) for call in await world.calls()] == [("failed", 1), ("failed", 2), ("done", 3)]


@pytest.mark.parametrize("effects", [None, "once"])
async def test_a_key_in_doubt_is_not_run_again_until_it_is_settled(world: World, effects: str | None) -> None:
    async def act() -> None:
        """Act."""
        world.ran.append(1)
        await world.go_on.wait()

    world.add(act, timeout=2, effects=effects)
    await world.executor.execute("act", key="k")
    doubt = await world.executor.execute("act", key="k", timeout=LIMIT)
    (call, _) = await world.calls()
    assert (doubt.error_kind, doubt.side_effects) == (ErrorKind.IN_DOUBT, SideEffects.UNKNOWN)
    assert doubt.error is not None
    assert f"toolrun effects settle {call.shown_id}" in doubt.error
    assert world.ran == [1]
    assert await asyncio.wrap_future(world.journal.settle(call.id, "not_done", "person")) is None
    world.go_on.set()
    assert (await world.executor.execute("act", key="k", timeout=LIMIT)).success
    assert world.ran == [1, 1]


@pytest.mark.parametrize("effects", ["idempotent", "keyed"])
async def test_a_key_in_doubt_runs_again_where_that_does_no_harm(tmp_path: Path, effects: str) -> None:
    world = World(tmp_path / "journal.db")

    async def act() -> None:
        """Act."""
        world.ran.append(1)
        if len(world.ran) == 1:
            raise TimeoutError

    world.add(act)
    executor = world.another_executor(settings={"act": ToolSettings(effects=effects)})
    assert not (await executor.execute("act", key="k")).success
    assert (await executor.execute("act", key="k")).success
    assert world.ran == [1, 1]
    await executor.close()
    world.journal.close()


async def test_a_call_that_would_wait_for_itself_is_refused(world: World) -> None:
    async def act() -> Any:
        """Act."""
        return (await world.executor.execute("act", key="k")).error

    world.add(act)
    result = await world.executor.execute("act", key="k")
    assert "wait for itself" in str(result.result)


async def test_who_repeats_the_key_of_a_running_call_gets_its_answer_when_it_is_there(world: World) -> None:
    has_begun = asyncio.Event()

    async def act() -> str:
        """Act."""
        world.ran.append(1)
        has_begun.set()
        await world.go_on.wait()
        return "done"

    world.add(act)
    first = asyncio.create_task(world.executor.execute("act", key="k"))
    await has_begun.wait()
    second = asyncio.create_task(world.executor.execute("act", key="k"))
    await asyncio.sleep(0)
    await world.journal.drain()  # it has looked by now
    await asyncio.sleep(0)
    assert not second.done()
    world.go_on.set()
    results = [await first, await second]
    assert [(it.result, it.replayed) for it in results] == [("done", False), ("done", True)]
    assert world.ran == [1]


async def test_who_waits_for_a_key_gives_up_at_the_own_deadline_and_does_not_disturb_the_call(world: World) -> None:
    async def act() -> str:
        """Act."""
        await world.go_on.wait()
        return "done"

    world.add(act)
    first = asyncio.create_task(world.executor.execute("act", key="k"))
    await world.journal.drain()
    waiter = await world.executor.execute("act", key="k", timeout=0.05)
    assert waiter.error_kind is ErrorKind.TIMEOUT
    world.go_on.set()
    assert (await first).result == "done"


async def test_a_key_without_a_journal_is_refused(world: World) -> None:
    add_act(world)
    executor = ToolExecutor(world.manager)
    result = await executor.execute("act", {"n": 1}, key="k")
    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert world.ran == []
    await executor.close()


@pytest.mark.parametrize("key", ["", "x" * 256, 7, b"k"])
async def test_a_key_is_text_of_a_reasonable_length(world: World, key: Any) -> None:
    add_act(world)
    result = await world.executor.execute("act", {"n": 1}, key=key)
    assert (result.error_kind, world.ran) == (ErrorKind.INVALID_ARGUMENTS, [])


async def test_the_same_arguments_in_another_form_are_the_same_call(world: World) -> None:
    async def act(a: int, b: int) -> int:
        """Act."""
        world.ran.append(1)
        return a + b

    world.add(act)
    forms: list[Any] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, '{"a": 1, "b": 2}', b'{"b":2,"a":1}']
    results = [await world.executor.execute("act", form, key="k") for form in forms]
    assert ([result.result for result in results], world.ran) == ([3] * 4, [1])


async def test_a_secret_in_the_arguments_does_not_make_another_call(world: World) -> None:
    async def act(password: str) -> str:
        """Act."""
        world.ran.append(1)
        return "in"

    world.add(act)
    results = [await world.executor.execute("act", {"password": it}, key="k") for it in ("hunter2", "hunter3")]
    assert ([result.result for result in results], world.ran) == (["in"] * 2, [1])


@pytest.mark.parametrize(
    ("returned", "answers", "is_kept"),
    [
        ({"n": 1}, Answers.PLAIN, True),
        ({"token": "abcdef"}, Answers.PLAIN, False),
        ("the key is s3cret-value", Answers.PLAIN, False),
        ("x" * 300_000, Answers.PLAIN, False),
        ({"token": "abcdef"}, Answers.ALL, True),
        ("the key is s3cret-value", Answers.ALL, False),
        ("x" * 300_000, Answers.ALL, False),
        ({"n": 1}, Answers.NONE, False),
    ],
)
async def test_an_answer_is_given_again_whole_or_not_at_all_and_the_call_is_not_repeated(
    tmp_path: Path, returned: Any, answers: Answers, is_kept: bool
) -> None:
    world = World(tmp_path / "journal.db", redactor=Redactor(["s3cret-value"]), answers=answers)

    async def act() -> Any:
        """Act."""
        world.ran.append(1)
        return returned

    world.add(act)
    first = await world.executor.execute("act", key="k")
    again = await world.executor.execute("act", key="k")
    (call, *_) = await world.calls()
    assert (first.result, world.ran, call.state, bool(call.has_answer)) == (returned, [1], "done", is_kept)
    if is_kept:
        assert (again.result, again.replayed) == (returned, True)
    else:
        assert (again.success, again.side_effects) == (False, SideEffects.DONE)
        assert again.error is not None
        assert "not kept" in again.error
        assert call.shown_id in again.error
    await world.executor.close()
    world.journal.close()


@pytest.mark.parametrize("effects", ["none", "idempotent", "keyed", "once", None])
@pytest.mark.parametrize("returned", [{"token": "abcdef"}, "x" * 300_000])
async def test_a_call_whose_answer_was_not_kept_runs_again_where_that_does_no_harm(
    world: World, returned: Any, effects: str | None
) -> None:
    async def act() -> Any:
        """Act."""
        world.ran.append(1)
        return returned

    world.add(act, effects=effects)
    results = [await world.executor.execute("act", key="k") for _ in range(3)]
    if effects in ("none", "idempotent"):
        assert [(it.result == returned, it.replayed) for it in results] == [(True, False)] * 3
        assert [(call.state, call.attempt, bool(call.has_key)) for call in await world.calls()] == [
            ("done", 1, False),
            ("done", 2, False),
            ("done", 3, True),
        ]
    else:
        assert [(it.success, it.side_effects) for it in results[1:]] == [(False, SideEffects.DONE)] * 2
        assert world.ran == [1]


async def test_of_many_who_repeat_a_key_whose_answer_was_not_kept_each_gets_an_answer(world: World) -> None:
    async def read() -> str:
        """Read."""
        world.ran.append(1)
        await asyncio.sleep(0)
        return "x" * 300_000

    world.add(read, effects="none")
    results = await asyncio.gather(*(world.executor.execute("read", key="k") for _ in range(10)))
    assert [(it.success, it.replayed) for it in results] == [(True, False)] * 10


async def test_a_harmless_call_whose_answer_was_kept_is_not_run_again(world: World) -> None:
    async def read() -> int:
        """Read."""
        world.ran.append(1)
        return len(world.ran)

    world.add(read, effects="none")
    assert [(await world.executor.execute("read", key="k")).result for _ in range(2)] == [1, 1]


async def test_a_replayed_answer_is_the_answer(world: World) -> None:
    async def act(n: int) -> Content:
        """Act."""
        world.ran.append(n)
        return Content([{"type": "text", "text": "one"}], {"n": n}, {"trace": "t"})

    world.add(act)
    first = await world.executor.execute("act", {"n": "1"}, key="k", call_id="a")
    again = await world.executor.execute("act", {"n": "1"}, key="k", call_id="b")
    for result, id in ((first, "a"), (again, "b")):
        assert (result.result, result.text, result.content, result.meta, result.call_id, len(result.repairs)) == (
            {"n": 1},
            "one",
            ({"type": "text", "text": "one"},),
            {"trace": "t"},
            id,
            1,
        )
    assert (first.replayed, again.replayed, world.ran) == (False, True, [1])
    assert await world.states() == ["done"]  # a replay is no call


async def test_a_look_at_a_key_ends_at_the_deadline(world: World) -> None:
    add_act(world)
    with world.blocked_journal():
        result = await world.executor.execute("act", {"n": 1}, key="k", timeout=0.05)
    assert (result.error_kind, result.side_effects, world.ran) == (ErrorKind.TIMEOUT, SideEffects.NOT_STARTED, [])
    assert (await world.executor.execute("act", {"n": 1}, key="k")).success
    assert world.ran == [1]


async def test_a_call_that_is_cancelled_while_it_takes_its_key_leaves_the_key_to_others(world: World) -> None:
    add_act(world)
    for steps in range(12):  # wherever it is by then
        call = asyncio.create_task(world.executor.execute("act", {"n": steps}, key=f"k{steps}"))
        for _ in range(steps):
            await asyncio.sleep(0)
        with world.blocked_journal():
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
        if steps in world.ran:
            continue
        again = await world.executor.execute("act", {"n": steps}, key=f"k{steps}")
        assert (again.result, world.ran.count(steps)) == ({"n": steps}, 1)
    assert world.executor.health().running == 0
    assert not [call for call in await world.calls() if call.state == "started"]


async def test_a_call_that_took_its_key_and_was_given_up_before_its_body_runs_again(world: World) -> None:
    add_act(world)
    is_claiming, go_on = threading.Event(), threading.Event()

    def claim_slowly(_: sqlite3.Connection) -> None:
        is_claiming.set()
        go_on.wait(30)

    async def stay() -> None:
        """Stay."""
        await world.go_on.wait()

    world.add(stay, effects="none")
    world.executor = world.another_executor(limits=Limits(max_concurrency=1))
    staying = asyncio.create_task(world.executor.execute("stay"))
    call = asyncio.create_task(world.executor.execute("act", {"n": 1}, key="k"))
    await until(lambda: world.executor.health().queued)  # it has looked its key up
    with world.journal._writer.file.lock:  # so that the claim is in one transaction with what delays it
        world.journal.run(lambda _: None)
        await until(lambda: not world.journal._writer._queue)
        world.journal.run(claim_slowly)
        world.go_on.set()
        await staying
        await until(lambda: len(world.journal._writer._queue) > 1)
    assert await asyncio.to_thread(is_claiming.wait, 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    again = await world.executor.execute("act", {"n": 1}, key="k")
    assert (again.result, again.replayed, world.ran) == ({"n": 1}, False, [1])
    found = [(it.tool, it.state, it.attempt) for it in await world.calls()]
    assert found == [("stay", "done", 1), ("act", "refused", 1), ("act", "done", 2)]


@pytest.mark.parametrize("effects", ["none", "idempotent"])
async def test_a_cancelled_call_that_does_no_harm_runs_again_under_its_key(world: World, effects: str) -> None:
    async def act() -> str:
        """Act."""
        world.ran.append(1)
        if len(world.ran) == 1:
            await world.go_on.wait()
        return "done"

    world.add(act, effects=effects)
    call = asyncio.create_task(world.executor.execute("act", key="k"))
    await until(lambda: world.ran)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    again = await world.executor.execute("act", key="k", timeout=10)
    assert (again.result, again.replayed) == ("done", False)
    assert [(call.state, call.attempt) for call in await world.calls()] == [("cancelled", 1), ("done", 2)]
