"""After an unclean end of a program the file is looked at, in the background, and not used if it is damaged."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.journal_world import World
from toolrun import ErrorKind
from toolrun.journal import file_check
from toolrun.journal.history import open_history
from toolrun.journal.journal import Journal
from toolrun.journal.writer_job import NotRecordedError

LIMIT = 30.0

PROGRAM = """
import sys
from pathlib import Path
from toolrun.journal.call_record import Ending, CallState, ToolRow
from toolrun.journal.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    record = journal.new_record(ToolRow("other", "", ""), '{"x":"' + "y" * 300 + '"}', None)
    record.ending = Ending(CallState.DONE, 1)
    journal.add(record)
    if journal.is_full():
        journal.flush()
journal.flush()
journal.run(lambda connection: None).result()
print("ready", flush=True)
sys.stdin.read()
journal.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def run_program(path: Path, *, is_killed: bool, calls: int = 10) -> None:
    command = [sys.executable, "-c", PROGRAM, str(path), str(calls)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    if is_killed:
        program.send_signal(signal.SIGKILL)
    program.communicate(timeout=LIMIT)


def until(is_so: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < give_up, what
        threading.Event().wait(0.005)


def open_processes(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    try:
        return [it for (it,) in connection.execute("SELECT id FROM process WHERE ended_at IS NULL ORDER BY id")]
    finally:
        connection.close()


def damage(path: Path) -> None:
    """Spoil a page of the calls, which the next program does not need in order to open the file."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((pages // 2) * size)
        file.write(b"\xff" * size)


def checks() -> list[threading.Thread]:
    return [it for it in threading.enumerate() if it.name == "toolrun-journal-check"]


def test_a_killed_process_is_noted_when_the_file_was_found_whole(path: Path) -> None:
    run_program(path, is_killed=True)
    journal = Journal(path)
    until(lambda: open_processes(path) == [journal.process], "the first process is noted")
    assert journal.problem is None
    journal.close()
    assert open_processes(path) == []


def test_after_a_clean_end_and_beside_a_living_process_nothing_is_looked_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(file_check.FileCheck, "_run", lambda self: looked.append(self._path))
    run_program(path, is_killed=False)
    first, second = Journal(path), Journal(path)
    second.close()
    first.close()
    assert looked == []
    run_program(path, is_killed=True)
    Journal(path).close()
    assert looked == [path]


async def test_a_damaged_file_is_not_used_and_what_to_do_is_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_program(path, is_killed=True, calls=2000)
    damage(path)
    world = World(path)

    def pay() -> str:
        """Pay."""
        world.ran.append("paid")
        return "paid"

    world.add(pay)
    await asyncio.to_thread(until, lambda: world.journal.problem, "the damage is noticed")
    free = await world.executor.execute("pay")
    assert free.success  # a call without a key is made, and is missing in the journal
    keyed = await world.executor.execute("pay", key="k")  # of a key nobody can say whether it was used
    assert keyed.error_kind is ErrorKind.UNAVAILABLE
    assert f"mv {path} {path}.damaged" in str(keyed.error)
    assert world.ran == ["paid"]
    assert "Calls continue without it" in caplog.text

    os.rename(path, f"{path}.damaged")  # noqa: PTH104  pathlib's blocks, says the linter
    again = await world.executor.execute("pay", key="k")
    assert again.success
    assert [call.tool for call in await world.calls()] == ["pay", "pay", "pay"]
    assert world.journal.problem is None
    await world.executor.close()
    world.journal.close()


async def test_damage_that_is_met_while_writing_is_answered_in_the_same_way(world: World) -> None:
    def pay() -> str:
        """Pay."""
        return "paid"

    world.add(pay)

    def fail(_: sqlite3.Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT_INDEX
        raise error

    with pytest.raises(NotRecordedError, match=r"malformed. It is damaged. Move it away"):
        await asyncio.wrap_future(world.journal.run(fail))
    keyed = await world.executor.execute("pay", key="k")
    assert keyed.error_kind is ErrorKind.UNAVAILABLE
    world.path.rename(world.path.with_name("away"))
    assert (await world.executor.execute("pay", key="k")).success


def test_the_end_of_a_program_waits_only_a_moment_for_a_look_and_the_next_one_looks_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_program(path, is_killed=True)
    has_begun, looks = threading.Event(), []

    def look(self: file_check.FileCheck) -> None:
        has_begun.set()
        while not self._is_over():
            threading.Event().wait(0.001)
        looks.append(1)

    with monkeypatch.context() as patch:
        patch.setattr(file_check.FileCheck, "_run", look)
        journal = Journal(path)
        assert has_begun.wait(LIMIT)
        journal.close()
        assert (looks, checks()) == ([1], [])
    assert open_processes(path) == [1]
    journal = Journal(path)
    until(lambda: open_processes(path) == [journal.process], "the next one has looked")
    journal.close()


def test_a_fork_waits_for_no_look_and_takes_no_connection_along(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_program(path, is_killed=True)
    has_begun = threading.Event()
    original = file_check.FileCheck._is_over

    def hold(self: file_check.FileCheck) -> bool:
        has_begun.set()
        while not self._is_stopped:
            threading.Event().wait(0.001)
        return original(self)

    monkeypatch.setattr(file_check.FileCheck, "_is_over", hold)
    monkeypatch.setattr(file_check, "_STEPS", 1)
    journal = Journal(path)
    assert has_begun.wait(LIMIT)
    child = os.fork()
    if child == 0:
        os._exit(len(checks()))
    assert os.waitpid(child, 0)[1] == 0
    assert checks() == []
    journal.close()
    with open_history(path) as history:
        assert len(history.calls(limit=100)) == 10
