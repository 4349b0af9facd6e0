"""A file that is written over a journal while a program has it open: nothing is mixed, and the gap is on record."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolrun.journal.call_record import CallRecord, CallState, Ending, ToolRow
from toolrun.journal.file_content import FileContent
from toolrun.journal.history import PastCall, open_history
from toolrun.journal.journal import Journal
from toolrun.journal.writer_job import NotRecordedError

ADD = ToolRow("add", "", "")
DONE = Ending(CallState.DONE, 42, "3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal(path, consumer="test")
    yield journal
    journal.close()


def fill(journal: Journal, count: int, size: int = 3000) -> None:
    for _ in range(count):
        add(journal, '{"x":"' + "y" * size + '"}')
        if journal.is_full():
            journal.flush()
    journal.flush()
    journal.flush()  # the first one returns before its checkpoint, which nothing may be copied into


def add(journal: Journal, arguments: str = "{}", ending: Ending | None = DONE) -> CallRecord:
    record = journal.new_record(ADD, arguments, "none")
    record.ending = ending
    journal.add(record)
    return record


def calls(path: Path) -> list[PastCall]:
    with open_history(path) as history:
        return history.calls(limit=100_000)[::-1]


def gaps(path: Path) -> list[int]:
    with open_history(path) as history:
        return [gap.calls for gap in history.gaps()]


def is_whole(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def copy_over(source: Path, path: Path) -> None:
    """As `cp` does it, in a process of its own: it would drop the locks of this one."""
    subprocess.run(["cp", str(source), str(path)], check=True, timeout=30)


def backup(path: Path, to: Path) -> None:
    source, target = sqlite3.connect(path), sqlite3.connect(to)
    source.backup(target)
    source.close()
    target.close()


@pytest.mark.parametrize("rest", [0, 50, 1800], ids=["only the log", "little", "a checkpoint later"])
def test_a_backup_that_is_copied_over_the_file_is_the_journal_from_then_on(
    journal: Journal, path: Path, rest: int, caplog: pytest.LogCaptureFixture
) -> None:
    older = path.with_name("backup.db")
    fill(journal, 300)
    backup(path, older)
    fill(journal, 1500)  # more than the log may have: there is a checkpoint
    fill(journal, rest)
    running = add(journal, ending=None)
    journal.flush()
    copy_over(older, path)
    add(journal, '{"x":"the last"}')
    journal.flush()
    assert "was overwritten with another file" in caplog.text
    assert is_whole(path)
    found = calls(path)
    assert [(len(found), found[-1].arguments)] == [(302, '{"x":"the last"}')]
    assert [call.state for call in found if call.id == running.id] == ["started"]
    assert gaps(path) == [1500 + rest]
    journal.end(running, DONE)
    fill(journal, 1500)
    assert is_whole(path)
    assert len(calls(path)) == 1802
    assert sorted(it.name for it in path.parent.iterdir() if "copy" in it.name) == []


def test_a_file_that_is_emptied_is_begun_anew(journal: Journal, path: Path) -> None:
    fill(journal, 10)
    os.truncate(path, 0)
    add(journal)
    journal.flush()
    assert is_whole(path)
    assert len(calls(path)) == 1
    assert gaps(path) == [10]


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path, real = tmp_path / "journal.db", tmp_path / "elsewhere" / "real.db"
    path.symlink_to(real)
    real.touch()
    journal = Journal(path)
    fill(journal, 10)
    os.truncate(real, 0)
    fill(journal, 1)
    journal.close()
    assert path.is_symlink()
    assert is_whole(real)
    assert (len(calls(path)), gaps(path)) == (1, [10])


def test_a_database_of_another_program_that_is_copied_over_the_file_is_not_written_to(
    journal: Journal, path: Path
) -> None:
    fill(journal, 300)
    foreign = sqlite3.connect(path.with_name("foreign.db"))
    for number in range(50):  # it was changed more often than the journal
        foreign.execute(f"CREATE TABLE theirs{number} (x)")
        foreign.commit()
    foreign.close()
    content = path.with_name("foreign.db").read_bytes()
    copy_over(path.with_name("foreign.db"), path)
    add(journal)
    with pytest.raises(NotRecordedError, match="database of another program"):
        journal.flush()
    journal.close()
    assert path.read_bytes() == content


def test_text_that_is_copied_over_the_file_is_left_as_it_is(journal: Journal, path: Path) -> None:
    fill(journal, 10)
    text = path.with_name("notes.txt")
    text.write_text("not a database at all\n" * 1000)
    copy_over(text, path)
    add(journal)
    with pytest.raises(NotRecordedError, match="file is not a database"):
        journal.flush()
    journal.close()
    assert path.read_text() == text.read_text()


OTHER = """
import sys
from pathlib import Path
from toolrun.journal.call_record import Ending, CallState, ToolRow
from toolrun.journal.journal import Journal
journal = Journal(Path(sys.argv[1]))
for line in sys.stdin:
    for _ in range(int(line)):
        record = journal.new_record(ToolRow("other", "", ""), '{"x":"' + "y" * 3000 + '"}', None)
        record.ending = Ending(CallState.DONE, 1)
        journal.add(record)
        if journal.is_full():
            journal.flush()
    journal.flush()
    journal.flush()  # as above
    print("done", flush=True)
journal.close()
"""


class OtherProcess:
    """A second program that writes to the journal, when it is told to."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", OTHER, str(path)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def write(self, count: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            pytest.fail(f"the other process ended: {self.end()}")

    def end(self) -> str:
        """What it had to say."""
        _, said = self.process.communicate(timeout=30)
        return said


@pytest.fixture
def other(path: Path) -> Iterator[OtherProcess]:
    process = OtherProcess(path)
    yield process
    process.process.kill()
    process.end()


def test_checkpoints_of_another_process_are_not_taken_for_another_file(
    journal: Journal, path: Path, other: OtherProcess, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        other.write(1500)
        fill(journal, 1500)
    assert other.end() == ""
    assert caplog.text == ""
    assert len(calls(path)) == 12_000
    assert gaps(path) == []
    assert is_whole(path)


@pytest.mark.parametrize("first", ["this", "other"])
def test_two_processes_go_on_together_in_the_file_that_was_copied(
    journal: Journal, path: Path, other: OtherProcess, first: str
) -> None:
    older = path.with_name("backup.db")
    fill(journal, 100)
    backup(path, older)
    other.write(1500)
    fill(journal, 1500)
    copy_over(older, path)
    for who in ("this", "other") if first == "this" else ("other", "this"):
        if who == "this":
            fill(journal, 1500)
        else:
            other.write(1500)
    fill(journal, 10)
    other.write(10)
    other.end()
    assert is_whole(path)
    found = calls(path)
    assert len(found) == 100 + 2 * 1510
    assert sorted(gaps(path)) == [1500, 1500]


async def test_a_call_that_waits_for_its_start_row_gets_it_in_the_file_that_was_copied(
    journal: Journal, path: Path
) -> None:
    fill(journal, 1500)
    backup(path, path.with_name("old.db"))
    fill(journal, 1500)
    copy_over(path.with_name("old.db"), path)
    record = journal.new_record(ADD, '{"x":"it acts"}', "once")
    await asyncio.wait_for(journal.add_and_wait(record, asyncio.get_running_loop()), 30)
    assert calls(path)[-1].arguments == '{"x":"it acts"}'
    assert gaps(path) == [1500]
    assert is_whole(path)


def test_the_file_is_opened_once_in_a_process_and_closed_with_the_last_that_writes(path: Path) -> None:
    first, second = Journal(path), Journal(path)
    assert len(FileContent._shared) == 1
    first.close()
    assert len(FileContent._shared) == 1
    second.close()
    assert len(FileContent._shared) == 0
