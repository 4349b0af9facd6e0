"""A body that ends after its call was answered settles the doubt about it by itself, if its end is proof."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.journal_world import World
from support.waiting import until
from toolrun import ErrorKind, Runtime, ToolError, ToolExecutor
from toolrun.config.model import ToolSettings
from toolrun.journal.history import PastCall, open_history

LIMIT = 30.0


def settlement(call: PastCall) -> tuple[str, str | None, str | None]:
    return call.state, call.settled_as, call.settled_by


@pytest.mark.parametrize(
    ("effects", "ended", "settled", "again"),
    [
        ("once", lambda: {"n": 1}, ("in_doubt", "done", "late"), {"n": 1}),
        ("", lambda: {"n": 1}, ("in_doubt", "done", "late"), {"n": 1}),
        ("once", ToolError("not done"), ("in_doubt", "not_done", "late"), "second"),
        ("", KeyError("x"), ("in_doubt", "not_done", "late"), "second"),
        ("once", KeyError("x"), ("in_doubt", None, None), None),
        ("", TimeoutError(), ("in_doubt", None, None), None),
        ("", lambda: asyncio.sleep(0), ("in_doubt", None, None), None),
        ("", lambda: {"rows": [map(str, [1])]}, ("in_doubt", None, None), None),
    ],
)
async def test_a_thread_that_ends_after_the_deadline(
    tmp_path: Path, effects: str, ended: Any, settled: tuple[str, str | None, str | None], again: Any
) -> None:
    world, go_on = World(tmp_path / "journal.db"), threading.Event()

    def act() -> Any:
        """Act."""
        if world.ran:
            return "second"
        world.ran.append(1)
        go_on.wait(LIMIT)
        if isinstance(ended, Exception):
            raise ended
        made = ended()
        if asyncio.iscoroutine(made):
            made.close()
        return made

    world.add(act, timeout=2)
    executor = world.another_executor(settings={"act": ToolSettings(effects=effects)})
    first = await executor.execute("act", key="k")
    doubt = await executor.execute("act", key="k", timeout=LIMIT)
    assert (first.error_kind, doubt.error_kind) == (ErrorKind.TIMEOUT, ErrorKind.IN_DOUBT)
    go_on.set()
    await until(lambda: not executor.health().abandoned)
    await asyncio.sleep(0)  # the loop is told in its next turn
    call = (await world.calls())[0]
    assert settlement(call) == settled
    result = await executor.execute("act", key="k", timeout=LIMIT)
    assert (result.result, result.error_kind) == (again, ErrorKind.IN_DOUBT if again is None else None)
    assert result.replayed is (settled[1] == "done")
    await executor.close()
    world.journal.close()


async def test_a_coroutine_that_does_not_let_itself_be_cancelled(world: World) -> None:
    async def act() -> str:
        """Act."""
        try:
            await world.go_on.wait()
        except asyncio.CancelledError:
            await world.go_on.wait()
        return "done after all"

    world.add(act, timeout=2)
    await world.executor.execute("act")
    assert world.executor.health().lingering == 1
    world.go_on.set()
    await until(lambda: not world.executor.health().lingering)
    (call,) = await world.calls()
    assert (*settlement(call), call.result) == ("in_doubt", "done", "late", '"done after all"')


async def test_a_body_that_ends_between_its_deadline_and_the_answer(world: World) -> None:
    async def act() -> str:
        """Act."""
        world.ran.append(1)
        await world.go_on.wait()
        return "done"

    world.add(act, effects="once")
    call = asyncio.create_task(world.executor.execute("act", key="k", timeout=2))
    await until(lambda: world.ran)
    asyncio.get_running_loop().call_later(0, world.go_on.set)  # in the turn of the loop in which the deadline is over
    time.sleep(2)  # noqa: ASYNC251  nobody has a turn before that
    assert (await call).error_kind is ErrorKind.TIMEOUT
    assert [settlement(it) for it in await world.calls()] == [("in_doubt", "done", "late")]
    again = await world.executor.execute("act", key="k")
    assert (again.result, again.replayed, world.ran) == ("done", True, [1])


async def test_a_coroutine_that_is_cancelled_proves_nothing(world: World) -> None:
    async def act() -> None:
        """Act."""
        await world.go_on.wait()

    world.add(act, timeout=2)
    await world.executor.execute("act")
    await until(lambda: not world.executor.health().lingering)
    (call,) = await world.calls()
    assert settlement(call) == ("in_doubt", None, None)


async def test_a_body_whose_caller_was_cancelled(world: World) -> None:
    go_on, has_begun = threading.Event(), threading.Event()

    def act() -> str:
        """Act."""
        has_begun.set()
        go_on.wait(LIMIT)
        return "done"

    world.add(act)
    task = asyncio.create_task(world.executor.execute("act"))
    await until(has_begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await world.states() == ["in_doubt"]
    go_on.set()
    await until(lambda: not world.executor.health().abandoned)
    await asyncio.sleep(0)
    (call,) = await world.calls()
    assert settlement(call) == ("in_doubt", "done", "late")


async def test_a_person_was_faster_than_the_body(world: World) -> None:
    go_on = threading.Event()

    def act() -> None:
        """Act."""
        go_on.wait(LIMIT)

    world.add(act, timeout=2)
    await world.executor.execute("act")
    (call,) = await world.calls()
    await asyncio.wrap_future(world.journal.settle(call.id, "not_done", "person"))
    go_on.set()
    await until(lambda: not world.executor.health().abandoned)
    await asyncio.sleep(0)
    (call,) = await world.calls()
    assert settlement(call) == ("in_doubt", "not_done", "person")


SERVER = """
import json, pathlib, sys, threading

def say(id, **answer):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **answer}), flush=True)

late = []

def act(id, how):
    go_on = pathlib.Path(sys.argv[1])
    while how not in ("now", "answered") and not go_on.exists():
        threading.Event().wait(0.01)
    if how == "answered":
        for thread in late:
            thread.join()
    say(id, result={"content": [{"type": "text", "text": how}], "isError": how == "failed"})

for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        about = {"name": "slow", "version": "1"}
        version = params["protocolVersion"]
        say(id, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"how": {"type": "string"}}}
        say(id, result={"tools": [{"name": "act", "description": "Act.", "inputSchema": schema}]})
    elif method == "tools/call":
        how = params["arguments"]["how"]
        thread = threading.Thread(target=act, args=(id, how), daemon=True)
        thread.start()
        late += [thread] if how != "answered" else []
    elif id is not None:
        say(id, error={"code": -32601, "message": "unknown"})
"""

SCRIPT = '''# /// script
# dependencies = []
#
# [tool.toolrun]
# concurrency = 4
# ///
import pathlib, threading

def act(how: str) -> str:
    """Act."""
    while how != "now" and not pathlib.Path(GO_ON + ("-other" if how == "other" else "")).exists():
        threading.Event().wait(0.01)
    if how == "other":
        threading.Event().wait(0.5)  # the late answer is first
    if how == "failed":
        raise ValueError(how)
    return how
'''


@asynccontextmanager
async def project(tmp_path: Path, text: str, effects: str) -> AsyncIterator[ToolExecutor]:
    path = tmp_path / "toolrun.toml"
    path.write_text(f'{text}\n[tool.act]\neffects = "{effects}"\n' if effects else text)
    async with Runtime.open(path) as runtime:
        await runtime.ready("act")
        assert (await runtime.executor.execute("act", {"how": "now"})).success
        yield runtime.executor


@pytest.mark.parametrize(
    ("how", "effects", "settled_as"), [("done", "once", "done"), ("failed", "", "not_done"), ("failed", "once", None)]
)
async def test_an_answer_of_an_mcp_server_after_the_deadline(
    tmp_path: Path, how: str, effects: str, settled_as: str | None
) -> None:
    go_on = tmp_path / "go_on"
    (tmp_path / "server.py").write_text(SERVER)
    arguments = json.dumps([str(tmp_path / "server.py"), str(go_on)])
    text = f"[servers.slow]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n"
    async with project(tmp_path, text, effects) as executor:

        async def ask_again() -> None:
            assert (await executor.execute("act", {"how": "answered"})).success

        await check_late_answer(tmp_path, executor, how, settled_as, go_on, ask_again)


@pytest.mark.parametrize(
    ("how", "effects", "settled_as"), [("done", "once", "done"), ("failed", "", "not_done"), ("failed", "once", None)]
)
async def test_an_answer_of_a_worker_that_lives_on_after_the_deadline(
    tmp_path: Path, how: str, effects: str, settled_as: str | None
) -> None:
    go_on = tmp_path / "go_on"
    (tmp_path / "act.py").write_text(SCRIPT.replace("GO_ON", repr(str(go_on))))
    async with project(tmp_path, '[tools]\npython = ["act.py"]\n', effects) as executor:
        other = asyncio.create_task(executor.execute("act", {"how": "other"}))  # so the worker is not killed

        async def end_other() -> None:
            await asyncio.to_thread(Path(f"{go_on}-other").touch)
            assert (await other).result == "other"

        await check_late_answer(tmp_path, executor, how, settled_as, go_on, end_other)


async def check_late_answer(
    tmp_path: Path,
    executor: ToolExecutor,
    how: str,
    settled_as: str | None,
    go_on: Path,
    hear_later: Callable[[], Awaitable[None]],
) -> None:
    """`hear_later` returns when something was heard that was said after the late answer."""
    first = await executor.execute("act", {"how": how}, key="k", timeout=2)
    doubt = await executor.execute("act", {"how": how}, key="k")
    assert (first.error_kind, doubt.error_kind) == (ErrorKind.TIMEOUT, ErrorKind.IN_DOUBT)
    await asyncio.to_thread(go_on.touch)
    await hear_later()
    await executor.execute("act", {"how": "now"}, key="last")  # what was handed to the journal before is on disk
    with open_history(tmp_path / ".toolrun/journal.db") as history:
        call = history.calls(limit=1000, error_kind="timeout")[-1]
    assert settlement(call) == ("in_doubt", settled_as, None if settled_as is None else "late")
    again = await executor.execute("act", {"how": how}, key="k")
    assert (again.replayed, again.error_kind) == {
        "done": (True, None),
        "not_done": (False, ErrorKind.TOOL_ERROR),
        None: (False, ErrorKind.IN_DOUBT),
    }[settled_as]
