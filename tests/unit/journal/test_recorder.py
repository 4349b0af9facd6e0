"""Calls of an executor, as a journal remembers them."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.journal_world import World
from support.waiting import until
from toolrun import ErrorKind, Runtime, SideEffects, ToolError, ToolResult, tool
from toolrun.config.model import Limits, ToolSettings
from toolrun.errors import UnavailableError
from toolrun.execution.failure import remote_failure
from toolrun.execution.observer import Observer
from toolrun.journal.history import open_history
from toolrun.journal.writer import MAX_QUEUED
from toolrun.redaction import Redactor
from toolrun.tools.context import Call


async def test_a_call_is_recorded_with_what_was_asked_repaired_and_answered(world: World) -> None:
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    world.add(add)
    await world.executor.execute("add", {"a": "2", "b": 3}, call_id="c7")
    (call,) = await world.calls()
    assert (call.tool, call.state, call.result, call.given_id) == ("add", "done", "5", "c7")
    assert (call.original, call.arguments) == ('{"a":"2","b":3}', '{"a":2,"b":3}')
    assert call.run_us is not None


class Popping:
    """A tool of somebody else that changes the arguments themselves."""

    name, description, inline, effects = "change", "Change.", True, "none"
    schema: ClassVar[Any] = {"type": "object", "properties": {"items": {"type": "array"}, "n": {"type": "integer"}}}

    def invoke(self, arguments: dict[str, Any]) -> None:
        arguments.pop("n")
        arguments["items"].clear()


def in_thread(items: list[Any], n: int) -> None:
    """Change."""
    items[0]["a"] = n
    items.append(n)


async def inline(items: list[Any], n: int) -> None:
    """Change."""
    items[0]["a"] = n
    items.append(n)


async def suspended(items: list[Any], n: int) -> None:
    """Change."""
    await asyncio.sleep(0)
    items[0]["a"] = n
    items.append(n)


@pytest.mark.parametrize("effects", ["none", "once", None])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("function", [in_thread, inline, suspended, Popping])
async def test_what_a_tool_changes_in_its_arguments_is_recorded_as_it_was(
    world: World, function: Any, key: str | None, effects: str | None
) -> None:
    if function is Popping:
        world.manager.add(Popping())
    else:
        world.add(function, name="change", effects=effects)
    for number, n in enumerate((2, "2")):
        sent: Any = {"items": [{"a": 1}], "n": n}
        result = await world.executor.execute("change", sent, key=key and f"{key}{number}")
        assert result.success, result.error
    plain, repaired = await world.calls()
    assert json.loads(plain.arguments or "") == json.loads(repaired.arguments or "") == {"items": [{"a": 1}], "n": 2}
    assert json.loads(repaired.original or "") == {"items": [{"a": 1}], "n": "2"}
    assert (plain.state, repaired.state, plain.original) == ("done", "done", None)


async def test_what_was_repaired_and_ignored_is_recorded(world: World) -> None:
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    world.add(add)
    result = await world.executor.execute("add", {"a": "2", "b": 3, "c": 4})
    (call,) = await world.calls()
    assert [it["path"] for it in json.loads(call.repairs or "")] == ["a"]
    assert call.to_dict()["dropped"] == ["c"]
    assert result.dropped == ("c",)


async def test_a_result_names_its_record_and_its_key(world: World) -> None:
    async def act(n: int) -> None:
        """Act."""
        world.ran.append(n)
        await asyncio.sleep(0)

    world.add(act)
    results = [
        await world.executor.execute("act", {"n": 1}),
        await world.executor.execute("act", {"n": 2}, key="k"),
        await world.executor.execute("act", {}, key="other"),
        await world.executor.execute("nothing"),
    ]
    assert [result.recorded_as for result in results] == [call.shown_id for call in await world.calls()]
    assert [result.key for result in results] == [None, "k", "other", None]
    again = await world.executor.execute("act", {"n": 2}, key="k")
    assert (again.replayed, again.recorded_as, again.key) == (True, results[1].recorded_as, "k")
    assert len(await world.calls()) == 4


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [("nothing", {}, "unknown_tool"), ("add", {"a": []}, "invalid_arguments")],
)
async def test_a_refused_call_is_recorded_as_refused(world: World, name: str, arguments: Any, kind: str) -> None:
    async def add(a: int) -> int:
        """Add."""
        return a

    world.add(add)
    await world.executor.execute(name, arguments)
    (call,) = await world.calls()
    assert (call.state, call.error_kind, call.side_effects) == ("refused", kind, "not_started")


@pytest.mark.parametrize("effects", [None, "once", "keyed"])
async def test_the_start_of_a_call_that_may_act_is_on_disk_before_its_body_runs(
    world: World, effects: str | None
) -> None:
    seen: list[list[str]] = []

    async def act() -> None:
        """Act."""
        connection = sqlite3.connect(world.path)
        seen.append([state for (state,) in connection.execute("SELECT state FROM call")])
        connection.close()

    world.add(act, effects=effects)
    with world.blocked_journal():
        call = asyncio.create_task(world.executor.execute("act"))
        for _ in range(100):  # as far as it comes
            await asyncio.sleep(0)
        assert seen == []
    await call
    assert seen == [["started"]]


@pytest.mark.parametrize(
    "options",
    [
        {"annotations": {"readOnlyHint": True}},
        {"annotations": {"idempotentHint": True}},
        {"effects": "none"},
        {"effects": "idempotent"},
        {"inline": True},
    ],
)
async def test_a_call_that_does_no_harm_does_not_wait_for_the_disk(world: World, options: dict[str, Any]) -> None:
    async def look() -> str:
        """Look."""
        if "inline" not in options:
            await asyncio.sleep(0)
        return "seen"

    world.add(look, **options)
    with world.blocked_journal():
        assert (await world.executor.execute("look")).result == "seen"
    assert await world.states() == ["done"]


@pytest.mark.parametrize(
    ("error", "effects", "state"),
    [
        (ToolError("no"), "once", "failed"),
        (KeyError("x"), "once", "in_doubt"),
        (TimeoutError(), "keyed", "in_doubt"),
        (KeyError("x"), "", "failed"),
        (TimeoutError(), "", "in_doubt"),
        (ConnectionResetError(), "", "in_doubt"),
        (ConnectionRefusedError(), "", "failed"),
        (socket.gaierror(-2, "Name or service not known"), "", "failed"),
        (ConnectionRefusedError(), "once", "in_doubt"),  # it may have acted before it came to a closed door
        (remote_failure(["builtins.ConnectionRefusedError"], "no", "act"), "", "failed"),
        (remote_failure(["builtins.ConnectionRefusedError"], "no", "act"), "keyed", "in_doubt"),
        (UnavailableError("down", side_effects=SideEffects.NOT_STARTED), "once", "failed"),
        (TimeoutError(), "none", "failed"),
        (TimeoutError(), "idempotent", "failed"),
    ],
)
async def test_an_exception_is_proof_only_where_the_author_says_so(
    tmp_path: Path, error: Exception, effects: str, state: str
) -> None:
    world = World(tmp_path / "journal.db")

    async def act() -> None:
        """Act."""
        raise error

    world.add(act)
    executor = world.another_executor(settings={"act": ToolSettings(effects=effects)})
    await executor.execute("act")
    assert await world.states() == [state]
    await executor.close()
    world.journal.close()


async def test_a_call_that_is_given_up_is_in_doubt_and_one_that_never_left_the_queue_is_refused(world: World) -> None:
    async def act() -> None:
        """Act."""
        await world.go_on.wait()

    world.add(act)
    executor = world.another_executor(limits=Limits(max_concurrency=1))
    # The one that waits has the earlier deadline: at the same moment it might still get the slot of the other.
    running, queued = await asyncio.gather(executor.execute("act", timeout=1), executor.execute("act", timeout=0.2))
    assert running.error_kind is ErrorKind.TIMEOUT
    assert queued.side_effects is SideEffects.NOT_STARTED
    assert sorted(await world.states()) == ["in_doubt", "refused"]
    world.go_on.set()
    await executor.close()


async def test_nested_calls_name_their_parent(world: World) -> None:
    async def inner() -> str:
        """In."""
        return "in"

    async def outer() -> Any:
        """Out."""
        return (await world.executor.execute("inner")).result

    world.add(inner)
    world.add(outer)
    await world.executor.execute("outer")
    calls = {call.tool: call for call in await world.calls()}
    assert calls["inner"].parent == calls["outer"].id
    assert calls["outer"].parent is None


@pytest.mark.parametrize("name", [[], {}, 7, None, b"add", "x" * 10_000, "\ud800"], ids=str)
async def test_a_call_of_anything_that_is_no_name_is_answered_and_recorded(world: World, name: Any) -> None:
    result = await world.executor.execute(name, {"text": "\ud800"}, call_id="\ud800")
    assert result.error_kind is ErrorKind.UNKNOWN_TOOL
    (call,) = await world.calls()
    assert (call.state, call.side_effects, len(call.tool) <= 128) == ("refused", "not_started", True)


class Told(Observer):
    """Keeps what it hears."""

    def __init__(self, results: list[ToolResult]) -> None:
        self._results = results

    def call_finished(self, call: Call, result: ToolResult) -> None:
        self._results.append(result)


async def test_a_call_that_is_cancelled_before_its_body_is_refused_and_its_body_never_runs(world: World) -> None:
    async def act() -> None:
        """Act."""
        world.ran.append(1)

    told: list[ToolResult] = []
    world.add(act)
    world.executor = world.another_executor(observers=[Told(told)])
    with world.blocked_journal():
        call = asyncio.create_task(world.executor.execute("act"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    (past,) = await world.calls()
    assert (past.state, past.error_kind, past.side_effects) == ("refused", "cancelled", "not_started")
    assert (world.ran, world.executor.health().running) == ([], 0)
    assert [it.side_effects for it in told] == [SideEffects.NOT_STARTED]


async def test_a_call_that_is_cancelled_in_the_queue_is_refused(world: World) -> None:
    async def act() -> None:
        """Act."""
        world.ran.append(1)
        await world.go_on.wait()

    told: list[ToolResult] = []
    world.add(act)
    world.executor = world.another_executor(limits=Limits(max_concurrency=1), observers=[Told(told)])
    first, second = (asyncio.create_task(world.executor.execute("act")) for _ in range(2))
    await until(lambda: world.ran and world.executor.health().queued)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert [it.side_effects for it in told] == [SideEffects.NOT_STARTED]
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert [it.side_effects for it in told] == [SideEffects.NOT_STARTED, SideEffects.UNKNOWN]
    assert [(it.state, it.side_effects) for it in await world.calls()] == [
        ("in_doubt", "unknown"),
        ("refused", "not_started"),
    ]


async def test_a_call_whose_start_is_not_on_disk_by_its_deadline_does_not_start(world: World) -> None:
    async def act() -> None:
        """Act."""
        world.ran.append(1)

    world.add(act)
    with world.blocked_journal():
        result = await world.executor.execute("act", timeout=0.05)
    assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.NOT_STARTED)
    assert result.error is not None
    assert "journal" in result.error
    assert (await world.states(), world.ran, world.executor.health().running) == (["refused"], [], 0)


async def test_calls_wait_when_the_journal_does_not_keep_up_and_give_up_at_the_deadline(world: World) -> None:
    async def look(n: int) -> int:
        """Look."""
        return n

    world.add(look)  # it works on its arguments alone, so it has no effects and waits for nothing else
    executor = world.another_executor(timeout=0.05)
    with world.blocked_journal():
        results = [await executor.execute("look", {"n": n}) for n in range(MAX_QUEUED + 1)]
    assert [result.error_kind for result in results] == [None] * MAX_QUEUED + [ErrorKind.TIMEOUT]
    assert results[-1].side_effects is SideEffects.NOT_STARTED
    assert (await world.states()).count("done") == MAX_QUEUED
    assert (await executor.execute("look", {"n": 1})).success
    await executor.close()


async def test_what_is_large_or_foreign_is_recorded_by_its_beginning_and_says_so(world: World) -> None:
    async def look(text: str, more: list[int]) -> str:
        """Look."""
        return text

    world.add(look)
    large = "x" * 2_000_000
    result = await world.executor.execute("look", {"text": large, "more": list(range(20_000))})
    assert result.result == large
    (call,) = await world.calls()
    assert (call.state, call.withheld) == ("done", "cut")
    assert call.arguments is not None
    assert call.result is not None
    assert call.arguments.startswith('{"text":"xxx')
    assert max(len(call.arguments), len(call.result)) < 20_000
    assert '"more":' in call.arguments


async def test_more_arguments_than_are_recorded_are_counted(world: World) -> None:
    def look(**more: int) -> int:
        """Look."""
        return len(more)

    world.add(look)
    await world.executor.execute("look", {f"n{number}": number for number in range(20_000)})
    (call,) = await world.calls()
    assert call.withheld == "cut"
    assert (call.arguments or "").endswith('"n99":99,"…":"19900 more"}')


async def test_values_are_recorded_as_they_were_at_the_call(world: World) -> None:
    async def look(items: list[int]) -> list[int]:
        """Look."""
        return items

    world.add(look)
    given: dict[str, Any] = {"items": [1, 2]}
    with world.blocked_journal():
        result = await world.executor.execute("look", given)
        given["items"].append(3)
        assert isinstance(result.result, list)
        result.result.append(4)
    (call,) = await world.calls()
    assert (call.arguments, call.result) == ('{"items":[1,2]}', "[1,2]")


async def test_who_calls_what_is_known_by_its_own_name_whatever_name_was_used(world: World) -> None:
    class Look:
        name, lc_name, description, schema = "look", "LookTool", "Look.", {"type": "object"}

        async def ainvoke(self, arguments: Any) -> str:
            return "seen"

    world.manager.add(Look())
    results = [await world.executor.execute(name, key="k") for name in ("look", "LookTool")]
    assert [(result.result, result.replayed) for result in results] == [("seen", False), ("seen", True)]
    assert [call.tool for call in await world.calls()] == ["look"]


SCRIPT = '''# /// script
# dependencies = []
# ///
from toolrun_sdk import ToolError

def act(how: str) -> str:
    """Act."""
    if how == "own word":
        raise ToolError("not done")
    if how == "exception":
        raise ValueError("who knows")
    if how == "closed door":
        raise ConnectionRefusedError("closed")
    return "done"
'''


@pytest.mark.parametrize(
    ("how", "state"),
    [("own word", "failed"), ("exception", "in_doubt"), ("closed door", "in_doubt"), ("return", "done")],
)
async def test_of_a_script_only_its_own_word_is_proof(tmp_path: Path, how: str, state: str) -> None:
    (tmp_path / "act.py").write_text(SCRIPT)
    (tmp_path / "toolrun.toml").write_text('[tools]\npython = ["act.py"]\n[tool.act]\neffects = "once"\n')
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        result = await runtime.executor.execute("act", {"how": how})
    with open_history(tmp_path / ".toolrun/journal.db") as history:
        (call,) = history.calls()
    assert (call.state, call.effects) == (state, "once")
    said = {"own word": "not done", "exception": "who knows", "closed door": "closed"}
    assert said.get(how, "") in (result.error or "")
    assert result.side_effects == {"failed": SideEffects.FAILED, "in_doubt": SideEffects.UNKNOWN}.get(state)


KEYED = '''# /// script
# dependencies = []
# [tool.toolrun]
# concurrency = 4
# ///
import asyncio
import threading
from toolrun_sdk import ToolError, idempotency_key

count = 0

def tell() -> str:
    """Tell."""
    global count
    count += 1
    if count == 1:
        raise ToolError(idempotency_key())
    return idempotency_key()

async def tell_later() -> str:
    """Tell."""
    await asyncio.sleep(0)
    return idempotency_key()

def tell_in_thread() -> str:
    """Tell."""
    said = []
    def look():
        try:
            said.append(idempotency_key())
        except RuntimeError as error:
            said.append(str(error))
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return said[0]
'''


async def test_a_script_knows_the_idempotency_key_of_its_call_the_same_for_each_attempt(
    tmp_path: Path,
) -> None:
    (tmp_path / "work.py").write_text(KEYED)
    (tmp_path / "toolrun.toml").write_text('[tools]\npython = ["work.py"]\n')
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        execute = runtime.executor.execute
        failed = await execute("work.tell", key="order-17")
        done = await execute("work.tell", key="order-17")
        replayed = await execute("work.tell", key="order-17")
        others = [
            await execute("work.tell", key="order-18"),
            await execute("work.tell"),
            *await asyncio.gather(*(execute("work.tell_later") for _ in range(4))),
        ]
        lost = await execute("work.tell_in_thread")
    assert failed.error == done.result == replayed.result
    assert (done.replayed, replayed.replayed) == (False, True)
    keys = {str(result.result) for result in (done, *others)}
    assert (len(keys), {len(key) for key in keys}) == (7, {32})
    assert "ask for the key in the tool" in str(lost.result)


@pytest.mark.parametrize(("error", "state"), [(ToolError("no"), "failed"), (ValueError("who knows"), "in_doubt")])
async def test_of_an_isolated_function_only_its_own_word_is_proof(tmp_path: Path, error: Exception, state: str) -> None:
    world = World(tmp_path / "journal.db")
    world.manager.add(tool(isolated=True)(raise_own_word if state == "failed" else raise_foreign))
    (name,) = (it.name for it in world.manager.tools)
    executor = world.another_executor(settings={name: ToolSettings(effects="once")})
    result = await executor.execute(name)
    assert (result.error, await world.states()) == (str(error), [state])
    await executor.close()
    world.journal.close()


async def test_an_isolated_function_knows_the_idempotency_key_of_its_call(world: World) -> None:
    world.manager.add(tool(isolated=True)(tell_key))
    results = [await world.executor.execute("tell_key", key=key) for key in ("a", "b", None)]
    with open_history(world.path) as history:
        assert [it.result for it in results] == [history.idempotency_key(call) for call in await world.calls()]
    assert len({it.result for it in results}) == 3


def tell_key() -> str:
    """Tell."""
    from toolrun_sdk import idempotency_key  # type: ignore[import-not-found]  # it is there in a worker

    return str(idempotency_key())


def raise_own_word() -> None:
    """Raise."""
    raise ToolError("no")


def raise_foreign() -> None:
    """Raise."""
    raise ValueError("who knows")


async def test_of_many_calls_in_one_batch_only_those_with_secrets_are_changed(tmp_path: Path) -> None:
    world = World(tmp_path / "secrets.db", redactor=Redactor(["hunter2-hunter2"]))

    async def look(token: str = "", text: str = "") -> str:
        """Look."""
        return text

    world.add(look)
    await world.executor.execute("look", {"text": "first"})  # the first call of a tool is recorded in another way
    await world.journal.drain()
    with world.blocked_journal():
        for number in range(300):
            arguments = {7: {"token": "abcdef"}, 200: {"text": "hunter2-hunter2"}}.get(number, {"text": f"{number}"})
            assert (await world.executor.execute("look", arguments)).success
    found = (await world.calls())[1:]
    hidden = {
        number: (call.arguments, call.withheld, call.result)
        for number, call in enumerate(found)
        if call.arguments != f'{{"text":"{number}"}}' or call.result != f'"{number}"'
    }
    assert hidden == {7: ('{"token":"***"}', "hidden", '""'), 200: ('{"text":"***"}', "hidden", '"***"')}
    assert {call.state for call in found} == {"done"}
    await world.executor.close()
    world.journal.close()


def test_a_program_that_records_nothing_loads_no_journal() -> None:
    program = """
import sys
from toolrun import Done, ToolExecutor, ToolManager, tool

@tool(effects="once", verify=lambda key, arguments: Done())
def act(n: int) -> int:
    "Act."
    return n

executor = ToolExecutor(ToolManager([act]))
assert executor.execute_sync("act", {"n": 1}).result == 1
executor.execute_sync("act", {"n": 1}, key="k")
print(*(name for name in sys.modules if "sqlite" in name or name.startswith("toolrun.journal")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"
