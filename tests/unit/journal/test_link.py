"""A journal whose name is a link: whatever name a process uses, it is one file with one log and one lock file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from toolrun.journal.call_record import CallRecord, CallState, Ending, ToolRow
from toolrun.journal.history import open_history
from toolrun.journal.journal import Journal

ACT = ToolRow("act", "tools/act.py", "d1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file that is meant."""
    return tmp_path / "elsewhere" / "real.db"


@pytest.fixture
def link(tmp_path: Path, path: Path) -> Path:
    link = tmp_path / "journal.db"
    link.symlink_to(path)
    return link


async def start(journal: Journal) -> CallRecord:
    record = journal.new_record(ACT, "{}", "once")
    await journal.add_and_wait(record, asyncio.get_running_loop())
    return record


def test_a_link_to_nothing_makes_the_private_file_that_it_means(path: Path, link: Path) -> None:
    Journal(link).close()
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_process_that_uses_another_name_of_the_file_does_not_doubt_the_calls_that_run(
    path: Path, link: Path
) -> None:
    Journal(path).close()
    journal = Journal(link)
    record = await start(journal)
    look = "import sys; from pathlib import Path; from toolrun.journal.history import open_history\n"
    look += "with open_history(Path(sys.argv[1])) as history: print(len(history.calls()), len(history.in_doubt()))"
    asking = await asyncio.create_subprocess_exec(sys.executable, "-c", look, str(path), stdout=asyncio.subprocess.PIPE)
    assert (await asking.communicate())[0] == b"1 0\n"
    journal.end(record, Ending(CallState.DONE, 1, "1"))
    journal.close()
    assert not link.with_name("journal.db-lock").exists()


async def test_the_log_of_a_linked_journal_is_watched(path: Path, link: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(link)
    record = await start(journal)
    path.with_name("real.db-wal").unlink()
    await start(journal)
    journal.end(record, Ending(CallState.DONE, 1, "1"))
    await journal.drain()
    assert "real.db-wal was deleted while toolrun is running; nothing is lost" in caplog.text
    with open_history(path) as history:
        assert [call.state for call in history.calls()] == ["started", "done"]
    journal.close()


async def test_a_file_that_is_moved_with_a_link_left_in_its_place_is_one_file_for_all(tmp_path: Path) -> None:
    name, path = tmp_path / "journal.db", tmp_path / "moved.db"
    journal = Journal(name)
    await start(journal)
    name.rename(path)
    name.symlink_to(path.name)
    await start(journal)  # in the log that everybody finds now
    journal.close()
    assert path.with_name("moved.db-lock").exists()
    assert not name.with_name("journal.db-wal").exists()
    with open_history(path) as history:
        assert [call.process for call in history.calls()] == [journal.process] * 2
        assert history.gaps() == []


async def test_a_process_whose_journal_was_moved_behind_a_link_is_not_taken_for_dead(tmp_path: Path) -> None:
    name = tmp_path / "journal.db"
    journal = Journal(name)
    await start(journal)
    name.rename(tmp_path / "moved.db")
    name.symlink_to("moved.db")
    await start(journal)
    look = "import sys; from pathlib import Path; from toolrun.journal.history import open_history\n"
    look += "with open_history(Path(sys.argv[1])) as history: print(len(history.calls()), len(history.in_doubt()))"
    asking = await asyncio.create_subprocess_exec(sys.executable, "-c", look, str(name), stdout=asyncio.subprocess.PIPE)
    assert (await asking.communicate())[0] == b"2 0\n"
    journal.close()
