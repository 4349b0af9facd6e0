"""Opening the journal's file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolrun.errors import JournalError
from toolrun.journal import database
from toolrun.journal.database import APPLICATION_ID, begin, file_system, migrations, open_reader, open_writer
from toolrun.journal.journal import Journal


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".toolrun" / "journal.db"


def test_a_new_file_is_private_and_ignored_by_git(path: Path) -> None:
    connection = open_writer(path, is_power_safe=False)
    begin(connection)
    connection.execute("INSERT INTO tool (name, source, definition) VALUES ('a', '', '')")
    connection.execute("COMMIT")
    for file in path.parent.iterdir():
        if file.name != ".gitignore":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (path.parent / ".gitignore").read_text() == "*\n"
    connection.close()


def test_the_folder_of_toolrun_is_private_also_if_somebody_else_has_made_it(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o755)
    open_writer(path, is_power_safe=False).close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (path.parent / ".gitignore").read_text() == "*\n"
    (tmp_path / "data").mkdir(mode=0o755)
    open_writer(tmp_path / "data/journal.db", is_power_safe=False).close()
    assert not (tmp_path / "data/.gitignore").exists()  # that one is the user's


def test_a_new_file_has_the_settings_that_keep_it_whole(path: Path) -> None:
    connection = open_writer(path, is_power_safe=False)
    assert pragma(connection, "journal_mode") == "wal"
    assert pragma(connection, "auto_vacuum") == 2
    assert pragma(connection, "wal_autocheckpoint") == 0
    assert pragma(connection, "application_id") == APPLICATION_ID
    assert pragma(connection, "user_version") == len(migrations())
    assert pragma(connection, "synchronous") == 1
    connection.close()
    connection = open_writer(path, is_power_safe=True)
    assert pragma(connection, "synchronous") == 2
    connection.close()


def test_every_table_is_strict(path: Path) -> None:
    connection = open_writer(path, is_power_safe=False)
    tables = connection.execute(
        "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type <> 'view'"
    ).fetchall()
    assert [name for name, strict in tables if not strict and not name.startswith("sqlite_")] == []
    connection.close()


def test_a_directory_is_no_journal(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(JournalError, match="it is a directory"):
        open_writer(path, is_power_safe=False)
    with pytest.raises(JournalError, match="it is a directory"):
        open_reader(path)


def test_a_file_of_another_program_is_not_written_to(path: Path) -> None:
    path.parent.mkdir()
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.commit()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="database of another program"):
        open_writer(path, is_power_safe=False)
    with pytest.raises(JournalError, match="database of another program"):
        open_reader(path)
    assert path.read_bytes() == before
    foreign.close()


def test_a_file_that_is_no_database_is_not_written_to(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"these are the notes of somebody else\n" * 100)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="cannot be used"):
        open_writer(path, is_power_safe=False)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_not_written_to(path: Path) -> None:
    connection = open_writer(path, is_power_safe=False)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalError, match="newer toolrun"):
        open_writer(path, is_power_safe=False)
    reader = open_reader(path)  # what is in there may well be the same
    assert reader.execute("SELECT count(*) FROM call").fetchone() == (0,)
    reader.close()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a mount namespace")
@pytest.mark.parametrize("version", [3, len(migrations())])
def test_a_file_can_be_read_where_nothing_can_be_written(path: Path, version: int) -> None:
    Journal(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    program = (
        "import sys; from pathlib import Path; from toolrun.journal.history import open_history\n"
        "with open_history(Path(sys.argv[1])) as history: print(history.calls(), history.in_doubt())"
    )
    mounting = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1/journal.db"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounting, "sh"]
    done = subprocess.run(
        [*command, str(path.parent), sys.executable, program], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.stdout, done.stderr) == ("[] []\n", "")


def test_nothing_to_read_says_so(path: Path) -> None:
    with pytest.raises(JournalError, match="nothing has been called"):
        open_reader(path)


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(JournalError, match=r"needs SQLite 3\.37"):
        open_writer(path, is_power_safe=False)
    assert not path.exists()


def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "file_system", lambda _: "nfs4")
    with pytest.raises(JournalError, match=r"network file system \(nfs4\).*\[journal\] path"):
        open_writer(path, is_power_safe=False)
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_file_system_of_a_path_is_known() -> None:
    assert file_system(Path("/proc/self/x")) == "proc"


def test_many_processes_may_make_the_file_at_once(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from toolrun.journal.database import open_writer\n"
        "sys.stdin.read(); open_writer(Path(sys.argv[1]), is_power_safe=False).close()"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert (said, [process.returncode for process in processes]) == ([b""] * 8, [0] * 8)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_whose_file_it_is_is_read_in_one_moment(path: Path, mode: str) -> None:
    """Another process makes the file between two of the questions."""
    path.parent.mkdir(exist_ok=True)

    class Interrupted(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if "application_id" in arguments[0]:
                with contextlib.suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=0)) as other:
                    other.executescript("BEGIN; CREATE TABLE call (id); PRAGMA user_version = 1; COMMIT")
            return super().execute(*arguments)

    with closing(sqlite3.connect(path, isolation_level=None, factory=Interrupted)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        assert database._check_owner(connection, path) == (0, 0)
        assert not connection.in_transaction


def test_utterances_of_the_first_version_count_as_answered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = migrations()
    monkeypatch.setattr(database, "migrations", lambda: scripts[:1])
    connection = open_writer(path, is_power_safe=False)
    connection.execute("INSERT INTO utterance VALUES ('mqtt voice', 'a', 1)")
    connection.close()
    monkeypatch.undo()
    connection = open_writer(path, is_power_safe=False)
    found = connection.execute("SELECT source, id, at, process, conversation FROM utterance").fetchall()
    assert (found, pragma(connection, "user_version")) == ([("mqtt voice", "a", 1, None, None)], len(scripts))
    connection.close()


def test_a_failed_migration_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_writer(path, is_power_safe=False).close()
    broken = "CREATE TABLE more (x INTEGER) STRICT;\nCREATE TABLE more (x INTEGER) STRICT;\n"
    monkeypatch.setattr(database, "migrations", lambda: [*migrations(), broken])
    with pytest.raises(JournalError, match="already exists"):
        open_writer(path, is_power_safe=False)
    monkeypatch.undo()
    connection = open_writer(path, is_power_safe=False)
    assert pragma(connection, "user_version") == len(migrations())
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'more'").fetchone() == (0,)
    connection.close()


def test_a_transaction_may_write_from_its_beginning(tmp_path: Path) -> None:
    """One that reads first, and then finds that somebody else has written, fails at once, however long it may wait."""
    first, second = (open_writer(tmp_path / "journal.db", is_power_safe=False) for _ in range(2))
    begin(first)
    second.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        second.execute("BEGIN IMMEDIATE")
    first.execute("COMMIT")
    begin(second)
    for connection in (second, first):
        connection.close()
