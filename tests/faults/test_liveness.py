"""A process that may still act is not taken for dead, whatever becomes of its journal and its lock file."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from faults.bench import LIMIT
from toolrun import Done, NotDone, Runtime, tool
from toolrun.errors import ErrorKind
from toolrun.journal.history import open_history
from toolrun.journal.journal import Journal
from toolrun.json import JSON
from toolrun.result import ToolResult


async def test_a_thread_that_outlives_its_runtime_is_not_taken_for_dead_by_the_next_one(tmp_path: Path) -> None:
    config = tmp_path / "toolrun.toml"
    config.write_text("")
    effects: list[int] = []
    go_on, has_acted = threading.Event(), threading.Event()

    def look(key: str, arguments: dict[str, JSON]) -> object:
        return Done("was") if effects else NotDone()

    @tool(effects="once", verify=look)
    def act() -> str:
        """Act late."""
        go_on.wait(LIMIT)
        effects.append(1)
        has_acted.set()
        return "done"

    async def call(timeout: float) -> ToolResult:
        async with Runtime.open(config) as runtime:
            runtime.manager.add(act)
            return await runtime.executor.execute("act", key="the same", timeout=timeout)

    assert (await call(0.05)).error_kind is ErrorKind.TIMEOUT
    with open_history(tmp_path / ".toolrun/journal.db") as history:
        (doubt,) = history.in_doubt()
        assert history.may_act(doubt)
    program = """
import sys
from pathlib import Path
from toolrun.journal.history import open_history
with open_history(Path(sys.argv[1])) as history:
    print([history.may_act(call) for call in history.in_doubt()])
"""
    command = [sys.executable, "-c", program, str(tmp_path / ".toolrun/journal.db")]
    assert await asyncio.to_thread(subprocess.check_output, command, text=True) == "[True]\n"
    again = await call(LIMIT)
    assert (again.error_kind, effects) == (ErrorKind.IN_DOUBT, [])
    go_on.set()
    assert await asyncio.to_thread(has_acted.wait, LIMIT)
    assert (await call(LIMIT)).result == "was"
    assert effects == [1]


def test_all_journals_of_a_process_on_one_file_have_one_row(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "journal.db"), Journal(tmp_path / "journal.db")
    assert first.process == second.process
    ids = {journal.new_id() for journal in (first, second, first, second)}
    assert len(ids) == 4
    first.close()
    second.flush()
    third = Journal(tmp_path / "journal.db")
    assert third.process == second.process
    assert third.new_id() not in ids
    ended = third.run(lambda connection: connection.execute("SELECT ended_at FROM process").fetchall())
    assert ended.result(LIMIT) == [(None,)]
    second.close()
    third.close()
    connection = sqlite3.connect(tmp_path / "journal.db")
    assert connection.execute("SELECT count(*) FROM process WHERE ended_at IS NOT NULL").fetchone() == (1,)
    connection.close()


ACTOR = """
import asyncio, sys
from pathlib import Path
from toolrun import Runtime, tool

@tool(effects="once")
def act() -> str:
    "Act when told."
    print("started", flush=True)
    sys.stdin.readline()
    return "done"

async def main():
    async with Runtime.open(sys.argv[1]) as runtime:
        runtime.manager.add(act)
        print((await runtime.executor.execute("act", key="the same", timeout=60)).result, flush=True)
        sys.stdin.readline()
asyncio.run(main())
"""


def start_actor(config: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ACTOR, str(config)]
    actor = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert actor.stdout is not None
    assert actor.stdout.readline() == "started\n"
    return actor


def is_locked(lock: Path, byte: int) -> bool:
    program = "import fcntl, sys\nfcntl.lockf(open(sys.argv[1], 'r+'), 6, 1, int(sys.argv[2]))"
    asked = subprocess.run([sys.executable, "-c", program, str(lock), str(byte)], stderr=subprocess.PIPE, check=False)
    return b"BlockingIOError" in asked.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_process_whose_lock_file_was_deleted_is_not_taken_for_dead(tmp_path: Path) -> None:
    config, path = tmp_path / "toolrun.toml", tmp_path / ".toolrun/journal.db"
    config.write_text("")
    effects: list[int] = []

    @tool(effects="once", verify=lambda key, arguments: NotDone())
    def act() -> str:
        """Act."""
        effects.append(1)
        return "done here"

    actor = start_actor(config)
    assert actor.stdin is not None
    assert actor.stdout is not None
    lock = path.with_name("journal.db-lock")
    lock.unlink()
    with open_history(path) as history:
        assert history.in_doubt() == []
    assert not lock.exists()  # who only looks makes no file
    async with Runtime.open(config) as runtime:
        runtime.manager.add(act)
        waits = await runtime.executor.execute("act", key="the same", timeout=0.2)
        assert waits.error is not None
        assert "is still running" in waits.error
        actor.stdin.write("\n")
        actor.stdin.flush()
        assert actor.stdout.readline() == "done\n"
        assert (await runtime.executor.execute("act", key="the same", timeout=LIMIT)).result == "done"
        assert effects == []
    assert is_locked(lock, 1)  # the actor holds its byte in the new file
    actor.communicate("\n", timeout=LIMIT)
    with open_history(path) as history:
        assert [call.state for call in history.calls(tool="act")][-1] == "done"
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_the_end_of_a_call_is_on_record_though_its_process_was_taken_for_dead(tmp_path: Path) -> None:
    config, path = tmp_path / "toolrun.toml", tmp_path / ".toolrun/journal.db"
    config.write_text("")
    actor = start_actor(config)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE call SET state = 'in_doubt', error_kind = 'host_lost', error = 'died'")
    connection.close()
    assert actor.communicate("\n\n", timeout=LIMIT)[0] == "done\n"
    with open_history(path) as history:
        assert [(call.state, call.error_kind, call.has_answer) for call in history.calls()] == [("done", None, True)]


def test_what_somebody_has_settled_of_a_process_that_was_taken_for_dead_stays_settled(tmp_path: Path) -> None:
    config, path = tmp_path / "toolrun.toml", tmp_path / ".toolrun/journal.db"
    config.write_text("")
    actor = start_actor(config)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE call SET state = 'in_doubt', error_kind = 'host_lost', settled_as = 'not_done'")
    connection.close()
    assert actor.communicate("\n\n", timeout=LIMIT)[0] == "done\n"
    with open_history(path) as history:
        assert [(call.state, call.settled_as) for call in history.calls()] == [("in_doubt", "not_done")]
