"""`verify`: the destination is asked about a call in doubt, and believed when the answer is proof."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.journal_world import World
from support.waiting import until
from toolrun import Done, ErrorKind, NotDone, SideEffects, ToolContext, ToolError, ToolExecutor, ToolManager, tool
from toolrun.config.model import ToolSettings
from toolrun.journal.attempt import Attempt, is_over, runs_in, settle_time
from toolrun.journal.history import PastCall
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.processes.tag import TAG

LIMIT = 30.0


def add_pay(world: World, verify: Any, **options: Any) -> None:
    """A tool whose first call fails so that nobody knows whether it has acted."""

    async def pay(euros: int) -> str:
        """Pay."""
        world.ran.append(euros)
        await asyncio.sleep(0)
        if len(world.ran) == 1:
            raise KeyError("the answer")
        return "paid"

    world.add(pay, **{"effects": "once", "verify": verify, **options})


def settlement(call: PastCall) -> tuple[str, str | None, str | None]:
    return call.state, call.settled_as, call.settled_by


async def twice(world: World, timeout: float | None = None) -> Any:
    first = await world.executor.execute("pay", {"euros": "5"}, key="k")
    assert not first.success
    return await world.executor.execute("pay", {"euros": "5"}, key="k", timeout=timeout)


def in_thread(asked: list[Any], answer: Any) -> Callable[..., Any]:
    def verify(key: str, arguments: dict[str, Any]) -> Any:
        asked.append((key, arguments, threading.current_thread() is threading.main_thread()))
        return answer

    return verify


def on_loop(asked: list[Any], answer: Any) -> Callable[..., Any]:
    async def verify(key: str, arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        asked.append((key, arguments, threading.current_thread() is threading.main_thread()))
        return answer

    return verify


@pytest.mark.parametrize("kind", [in_thread, on_loop])
@pytest.mark.parametrize("result", [{"receipt": 7}, None, "done", [1, {"a": 2.5}]])
async def test_a_call_that_was_done_is_not_made_again(world: World, kind: Any, result: Any) -> None:
    asked: list[Any] = []
    add_pay(world, kind(asked, Done(result)))
    again = await twice(world)
    assert world.ran == [5]
    assert (again.success, again.result, again.replayed) == (True, result, True)
    (first, question) = await world.calls()
    assert settlement(first) == ("in_doubt", "done", "verify")
    assert again.recorded_as == first.shown_id
    [(key, arguments, is_on_loop)] = asked
    assert arguments == {"euros": 5}  # as the tool gets them
    assert (len(key), bytes.fromhex(key)) == (32, bytes.fromhex(key))
    assert is_on_loop is (kind is on_loop)
    assert (question.tool, question.state, question.effects) == ("pay.verify", "done", "none")
    third = await world.executor.execute("pay", {"euros": "5"}, key="k")
    assert (third.result, third.replayed, len(asked)) == (result, True, 1)


@pytest.mark.parametrize("kind", [in_thread, on_loop])
@pytest.mark.parametrize("verdict", [NotDone(), NotDone])
async def test_a_call_that_was_not_done_is_made_again(world: World, kind: Any, verdict: Any) -> None:
    asked: list[Any] = []
    add_pay(world, kind(asked, verdict))
    again = await twice(world)
    assert (again.result, again.replayed, world.ran) == ("paid", False, [5, 5])
    calls = {(call.tool, call.attempt): call for call in await world.calls()}
    assert settlement(calls["pay", 1]) == ("in_doubt", "not_done", "verify")
    assert (calls["pay", 2].state, len(asked)) == ("done", 1)


def raise_error(key: str, arguments: dict[str, Any]) -> None:
    raise SystemExit("the token is sesame")


@pytest.mark.parametrize(
    "verify",
    [
        lambda key, arguments: None,
        lambda key, arguments: True,
        lambda key, arguments: {"verdict": "maybe"},
        lambda key, arguments: "done",
        raise_error,
        lambda key, arguments: 1 / 0,
    ],
)
async def test_a_doubt_stays_if_nobody_can_say(world: World, verify: Any) -> None:
    add_pay(world, verify)
    again = await twice(world)
    assert (again.error_kind, again.side_effects) == (ErrorKind.IN_DOUBT, SideEffects.UNKNOWN)
    assert "toolrun effects settle" in str(again.error)
    assert world.ran == [5]
    assert settlement((await world.calls())[0]) == ("in_doubt", None, None)


async def test_whoever_settles_the_doubt_while_verify_is_asked_is_believed(world: World) -> None:
    async def verify(key: str, arguments: dict[str, Any]) -> Done:
        first = (await world.calls())[0]
        assert await asyncio.wrap_future(world.journal.settle(first.id, "not_done", "person")) is None
        return Done("paid before")

    add_pay(world, verify)
    again = await twice(world)
    assert (again.result, again.replayed, world.ran) == ("paid", False, [5, 5])
    assert settlement((await world.calls())[0]) == ("in_doubt", "not_done", "person")


async def test_what_is_wrong_with_verify_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    add_pay(world, lambda key, arguments: True)
    with caplog.at_level(logging.WARNING, "toolrun.journal"):
        await twice(world)
    assert "a call of 'pay' has acted: verify must return Done(result), NotDone() or None; it returned" in caplog.text


async def test_verify_has_a_deadline_of_its_own(world: World) -> None:
    go_on = threading.Event()
    add_pay(world, lambda key, arguments: go_on.wait(LIMIT))
    again = await twice(world, timeout=1.0)
    go_on.set()
    assert (again.error_kind, world.ran) == (ErrorKind.IN_DOUBT, [5])
    (asked,) = (it for it in await world.calls() if it.tool == "pay.verify")
    limit = re.search(r"timed out after ([\d.]+) s", asked.error or "")
    assert limit is not None
    assert float(limit[1]) <= 0.5  # the rest is for the call itself


async def test_it_has_not_acted_is_not_believed_of_a_thread_that_runs(world: World) -> None:
    go_on, has_ended = threading.Event(), threading.Event()

    def pay() -> str:
        """Pay."""
        world.ran.append(1)
        if len(world.ran) == 1:
            go_on.wait(LIMIT)
            has_ended.set()
            raise KeyError("x")  # proves nothing
        return "paid"

    world.add(pay, effects="once", verify=lambda key, arguments: NotDone(), timeout=2)
    assert (await world.executor.execute("pay", key="k")).error_kind is ErrorKind.TIMEOUT
    early = await world.executor.execute("pay", key="k", timeout=LIMIT)
    assert early.error_kind is ErrorKind.IN_DOUBT
    assert "may still be running" in str(early.error)
    assert world.ran == [1]
    go_on.set()
    await until(lambda: has_ended.is_set() and not world.executor.health().abandoned)
    await asyncio.sleep(0)  # the loop is told in its next turn
    (call, *_) = await world.calls()
    assert (settlement(call), call.ended_at is not None) == (("in_doubt", None, None), True)
    assert (await world.executor.execute("pay", key="k", timeout=LIMIT)).result == "paid"
    assert world.ran == [1, 1]


async def test_it_has_acted_is_believed_of_a_thread_that_runs(world: World) -> None:
    go_on = threading.Event()

    def pay() -> None:
        """Pay."""
        world.ran.append(1)
        go_on.wait(LIMIT)

    world.add(pay, effects="once", verify=lambda key, arguments: Done("paid"), timeout=2)
    await world.executor.execute("pay", key="k")
    assert (await world.executor.execute("pay", key="k", timeout=LIMIT)).result == "paid"
    go_on.set()
    assert world.ran == [1]


async def test_a_coroutine_that_ignores_its_cancellation_may_still_act(world: World) -> None:
    async def pay() -> str:
        """Pay."""
        world.ran.append(1)
        if len(world.ran) > 1:
            return "paid"
        while not world.go_on.is_set():
            try:
                await world.go_on.wait()
            except asyncio.CancelledError:
                continue
        raise KeyError("x")

    world.add(pay, effects="once", verify=lambda key, arguments: NotDone(), timeout=2)
    await world.executor.execute("pay", key="k")
    assert (await world.executor.execute("pay", key="k", timeout=LIMIT)).error_kind is ErrorKind.IN_DOUBT
    world.go_on.set()
    await until(lambda: not world.executor.health().lingering)
    assert (await world.executor.execute("pay", key="k", timeout=LIMIT)).result == "paid"
    assert world.ran == [1, 1]


async def test_a_cancelled_call_can_be_verified_once_its_body_has_ended(world: World) -> None:
    async def pay() -> str:
        """Pay."""
        world.ran.append(1)
        if len(world.ran) == 1:
            await world.go_on.wait()
        return "paid"

    world.add(pay, effects="once", verify=lambda key, arguments: NotDone())
    calling = asyncio.create_task(world.executor.execute("pay", key="k"))
    await until(lambda: bool(world.ran))
    calling.cancel()
    await asyncio.wait([calling])
    await asyncio.sleep(0)
    assert (await world.executor.execute("pay", key="k")).result == "paid"


CRASH = """
import asyncio, os, sys
from pathlib import Path
from toolrun import ToolExecutor, ToolManager, tool
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder

@tool(effects="once")
async def pay(euros: int) -> str:
    "Pay."
    await asyncio.sleep(0)
    os._exit(9)

executor = ToolExecutor(ToolManager([pay]), recorder=CallRecorder(Journal(Path(sys.argv[1]))))
executor.execute_sync("pay", {"euros": 5}, key="k")
"""


@pytest.mark.parametrize(
    ("verdict", "ran", "result"), [(Done("paid before"), [], "paid before"), (NotDone(), [5], "paid")]
)
async def test_the_call_of_a_process_that_died_is_verified(
    tmp_path: Path, verdict: Any, ran: list[int], result: str
) -> None:
    path, done = tmp_path / "journal.db", []
    code = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CRASH, str(path)], check=False, timeout=LIMIT, env={**os.environ}
    )
    assert code.returncode == 9

    @tool(effects="once", verify=lambda key, arguments: verdict)
    async def pay(euros: int) -> str:
        """Pay."""
        done.append(euros)
        return "paid"

    journal = Journal(path)
    executor = ToolExecutor(ToolManager([pay]), recorder=CallRecorder(journal))
    again = await executor.execute("pay", {"euros": 5}, key="k")
    assert (again.result, done) == (result, ran)
    await executor.close()
    journal.close()


async def test_it_has_not_acted_is_not_believed_while_a_worker_of_the_dead_process_lives(tmp_path: Path) -> None:
    path, done = tmp_path / "journal.db", []
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASH, str(path))
    assert await host.wait() == 9
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE tool SET place = 'worker'")
    connection.close()
    tagged = {**os.environ, TAG: f"{host.pid}-1a2b:1"}
    wait = (sys.executable, "-c", "input()")
    worker = await asyncio.create_subprocess_exec(*wait, stdin=subprocess.PIPE, env=tagged)

    @tool(effects="once", verify=lambda key, arguments: NotDone())
    async def pay(euros: int) -> str:
        """Pay."""
        done.append(euros)
        return "paid"

    journal = Journal(path)
    executor = ToolExecutor(ToolManager([pay]), recorder=CallRecorder(journal))
    early = await executor.execute("pay", {"euros": 5}, key="k", timeout=2)
    await worker.communicate(b"\n")
    assert (early.error_kind, done) == (ErrorKind.IN_DOUBT, [])
    assert "may still be running" in str(early.error)
    again = await executor.execute("pay", {"euros": 5}, key="k")
    assert (again.result, done) == ("paid", [5])
    await executor.close()
    journal.close()


async def test_of_many_that_repeat_a_key_in_doubt_one_runs(world: World) -> None:
    add_pay(world, lambda key, arguments: NotDone())
    await world.executor.execute("pay", {"euros": 5}, key="k")
    results = await asyncio.gather(*(world.executor.execute("pay", {"euros": 5}, key="k") for _ in range(20)))
    assert [result.result for result in results] == ["paid"] * 20
    assert world.ran == [5, 5]


async def test_an_answer_that_may_not_be_kept_is_still_given_to_who_asked(world: World) -> None:
    add_pay(world, lambda key, arguments: Done({"password": "sesame"}))
    again = await twice(world)
    assert (again.result, again.success) == ({"password": "sesame"}, True)
    third = await world.executor.execute("pay", {"euros": "5"}, key="k")
    assert (third.success, third.side_effects) == (False, SideEffects.DONE)
    files = sorted(world.path.parent.glob("journal.db*"))
    assert len(files) >= 3
    assert not any(b"sesame" in file.read_bytes() for file in files if not file.name.endswith("-lock"))


async def test_a_keyed_tool_is_called_again_without_a_question(world: World) -> None:
    asked: list[Any] = []
    add_pay(world, in_thread(asked, NotDone()), effects="keyed")
    assert (await twice(world)).result == "paid"
    assert asked == []


@pytest.mark.parametrize(
    ("verdict", "result"),
    [({"verdict": "done", "result": 7}, 7), ('{"verdict": "done", "result": 7}', 7), (Done(7), 7), (NotDone(), "paid")],
)
async def test_another_tool_verifies_if_the_project_says_so(tmp_path: Path, verdict: Any, result: Any) -> None:
    world = World(tmp_path / "journal.db")
    add_pay(world, None)
    asked: list[Any] = []

    async def was_paid(key: str, arguments: dict[str, Any]) -> Any:
        """Whether it was paid."""
        asked.append((key, arguments))
        return verdict

    world.add(was_paid, effects="none")
    executor = world.another_executor(settings={"pay": ToolSettings(verify="was_paid")})
    await executor.execute("pay", {"euros": 5}, key="k")
    assert (await executor.execute("pay", {"euros": 5}, key="k")).result == result
    assert [arguments for _, arguments in asked] == [{"euros": 5}]
    await executor.close()
    world.journal.close()


async def test_a_tool_that_is_named_to_verify_and_is_not_there_leaves_the_doubt(tmp_path: Path) -> None:
    world = World(tmp_path / "journal.db")
    add_pay(world, None)
    executor = world.another_executor(settings={"pay": ToolSettings(verify="nobody")})
    await executor.execute("pay", {"euros": 5}, key="k")
    assert (await executor.execute("pay", {"euros": 5}, key="k")).error_kind is ErrorKind.IN_DOUBT
    await executor.close()
    world.journal.close()


async def test_a_call_that_said_itself_that_nothing_happened_is_not_asked_about(world: World) -> None:
    asked: list[Any] = []

    async def pay() -> str:
        """Pay."""
        world.ran.append(1)
        if len(world.ran) == 1:
            raise ToolError("no money")
        return "paid"

    world.add(pay, effects="once", verify=in_thread(asked, Done()))
    await world.executor.execute("pay", key="k")
    assert (await world.executor.execute("pay", key="k")).result == "paid"
    assert asked == []


class Served:
    """A tool on a server."""

    name = "pay"
    description = "Pay."
    schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012  a test's own
    is_served = True

    def __init__(self, *, survives_host: bool) -> None:
        self.survives_host = survives_host

    async def ainvoke(self, arguments: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("seconds", "settle_after", "is_alive", "survives", "over"),
    [
        (29, None, True, True, False),
        (31, None, True, True, True),
        (29, None, False, True, False),  # a server elsewhere does not notice that its client died
        (1, None, False, False, True),  # one that we started dies with us
        (29, None, True, False, False),
        (6, 5.0, True, True, True),
        (4, 5.0, True, True, False),
        (59, 60.0, False, True, False),
        (61, 60.0, False, True, True),
    ],
)
def test_a_server_is_given_time(
    seconds: int, settle_after: float | None, is_alive: bool, survives: bool, over: bool
) -> None:
    settings = {"pay": ToolSettings(settle_after=settle_after, timeout=10)}
    prepared = ToolExecutor(ToolManager([Served(survives_host=survives)]), settings=settings)._prepare("pay")
    where: dict[str, Any] = {"place": runs_in(prepared.tool), "settle_us": settle_time(prepared)}
    assert is_over(Attempt(1, 1, 0, None, **where), is_alive=is_alive, now=seconds * 1_000_000) is over
    assert is_over(Attempt(1, 1, 0, 5, **where), is_alive=is_alive, now=0)  # it has answered


@tool
def in_host() -> None:
    """Act."""


@tool(isolated=True)
def in_worker() -> None:
    """Act."""


@pytest.mark.parametrize(("is_alive", "over"), [(True, False), (False, True)])
@pytest.mark.parametrize("acts", [in_host, in_worker])
def test_what_is_no_server_can_act_as_long_as_its_host_lives_however_long_ago_it_was_given_up(
    acts: Any, is_alive: bool, over: bool
) -> None:
    prepared = ToolExecutor(ToolManager([acts]), settings={acts.name: ToolSettings(settle_after=5)})._prepare(acts.name)
    attempt = Attempt(1, 1, 0, None, place=runs_in(acts), settle_us=settle_time(prepared))
    assert is_over(attempt, is_alive=is_alive, now=10**15) is over


async def test_under_a_key_the_destination_is_asked_anew_each_time(world: World) -> None:
    acted: list[str] = []

    def verify(key: str, arguments: dict[str, Any]) -> Done | NotDone:
        return Done("written") if key in acted else NotDone()

    def write(context: ToolContext) -> str:
        """Breaks twice: first before it acts, then after it."""
        world.attempts += 1
        if world.attempts > 1:
            acted.append(context.idempotency_key)
        raise KeyError("the answer")

    async def post(context: ToolContext) -> str:
        """Has no effects of its own."""
        result = await context.call_tool("write", {})
        if result.error is not None:
            raise ToolError(result.error)
        return str(result.result)

    world.add(write, effects="once", verify=verify)
    world.add(post, effects="keyed")
    results = [await world.executor.execute("post", key="k") for _ in range(3)]
    assert [it.success for it in results] == [False, False, True]
    assert (results[2].result, len(acted)) == ("written", 1)
