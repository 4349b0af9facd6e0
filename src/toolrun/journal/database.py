"""Opening the journal's file: who may read it, which version it has, and whether SQLite can be trusted with it.

Every connection of the package is made here, because a few settings keep the file whole and must not differ. The writer
alone makes checkpoints, and only with TRUNCATE, which holds the write lock: up to SQLite 3.51.2 a checkpoint beside a
commit of another connection can corrupt a WAL file (https://sqlite.org/wal.html#walresetbug).

The file is never opened with anything but SQLite: closing any other descriptor of it would drop SQLite's locks.
"""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

from toolrun.errors import JournalError
from toolrun.journal.project_folder import make_private_folder

APPLICATION_ID: Final = 0x746F6F6C
"""`tool`, in the header of the file: a database of another program is not written to."""
_OLDEST_SQLITE: Final = (3, 37, 0)
"""The first with STRICT tables."""
_OLDEST_READABLE: Final = 3
"""Versions of the file that can be read as they are, where nobody can bring it up to date."""
_NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "ocfs2", "smb3", "smbfs", "virtiofs"}
)
"""File systems on which the shared memory of WAL does not work, or not between machines."""
_ADVICE: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_FULL: "Make room on the disk, or set [journal] path to a file on another one.",
    sqlite3.SQLITE_IOERR: "See whether the disk is full or broken, or set [journal] path to a file on another one.",
    sqlite3.SQLITE_BUSY: "Another program has locked it: end that program, or its transaction.",
    sqlite3.SQLITE_CORRUPT: "It is damaged. Move it away, and toolrun starts a new one: mv {path} {path}.damaged",
    sqlite3.SQLITE_NOTADB: "Set [journal] path to another file, or move this one away: mv {path} {path}.old",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable, or set [journal] path to another file.",
    sqlite3.SQLITE_CANTOPEN: "Make the file and its folder writable, or set [journal] path to another file.",
}
"""What to do, by the kind of error."""
_BUSY: Final = 10.0
"""Seconds that a transaction waits for another process."""


def migrations() -> list[str]:
    """The SQL of each version, in order."""
    scripts = [it for it in files("toolrun.journal").joinpath("sql").iterdir() if it.name[0].isdigit()]
    return [it.read_text(encoding="utf-8") for it in sorted(scripts, key=lambda it: it.name)]


def beside(path: Path, end: str) -> Path:
    """A file that belongs to the journal. Where the journal's name is a link, it is beside the file that is meant, as
    those of SQLite are: whatever name a process uses, it finds the same one."""
    path = path.resolve()
    return path.with_name(f"{path.name}{end}")


def open_writer(path: Path, *, is_power_safe: bool) -> sqlite3.Connection:
    """The connection that writes. Makes the file, or brings it up to date. Raises JournalError with what to do."""
    _check_place(path)
    with explained(path, "opened"):
        _make_private(path)
        connection = _connect(path, "mode=rw")
    with explained(path, "used", connection):
        _prepare(connection, path)
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_power_safe else 'NORMAL'}")
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads, also while others write. Raises JournalError if there is nothing to read."""
    if not path.exists():
        raise JournalError(f"There is no journal at {path} yet: nothing has been called in this project.")
    with explained(path, "opened"):
        connection, version = _connect_to_read(path)
    if version < len(migrations()):  # the statements are those of the newest version
        try:
            open_writer(path, is_power_safe=False).close()
        except JournalError:
            if version < _OLDEST_READABLE:
                connection.close()
                raise
    return connection


def connect_to_check(path: Path) -> sqlite3.Connection:
    """A connection that only reads, beside the one that writes."""
    return _connect(path, "mode=ro")


def _connect_to_read(path: Path) -> tuple[sqlite3.Connection, int]:
    """While nobody writes, SQLite makes a file beside the database, for which there may be no room or no permission."""
    try:
        return _checked_to_read(_connect(path, "mode=ro"), path)
    except sqlite3.OperationalError:
        log = beside(path, "-wal")
        if log.exists() and log.stat().st_size:  # what is in there would be left out
            raise
        return _checked_to_read(_connect(path, "immutable=1"), path)


def _checked_to_read(connection: sqlite3.Connection, path: Path) -> tuple[sqlite3.Connection, int]:
    try:
        return connection, _check_owner(connection, path)[0]
    except BaseException:
        connection.close()
        raise


@contextmanager
def explained(
    path: Path,
    done: str,
    connection: sqlite3.Connection | None = None,
    errors: tuple[type[Exception], ...] = (OSError, sqlite3.Error),
) -> Iterator[None]:
    """Raises JournalError for what cannot be done to the journal, and then closes the connection, if there is one."""
    try:
        yield
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, errors):
            raise JournalError(what_failed(path, done, error)) from error
        raise


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that the file is not what it should be."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damaged(path: Path, reason: str) -> JournalError:
    """What is said of a file that is not whole."""
    advice = _ADVICE[sqlite3.SQLITE_CORRUPT].format(path=path)
    return JournalError(f"The journal {path} cannot be used: {reason}. {advice}")


def why_not_written(path: Path, error: Exception) -> str:
    """A sentence. A JournalError says by itself which journal it is about, and what to do."""
    return str(error) if isinstance(error, JournalError) else what_failed(path, "written", error)


def what_failed(path: Path, done: str, error: Exception) -> str:
    """What cannot be done to the journal, why, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and isinstance(error, OSError):
        code = sqlite3.SQLITE_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else sqlite3.SQLITE_CANTOPEN
    advice = _ADVICE.get(0 if code is None else code & 0xFF, "Set [journal] path to another file.")
    return f"The journal {path} cannot be {done}: {error}. {advice.format(path=path)}"


def begin(connection: sqlite3.Connection) -> None:
    """Start a transaction that writes. SQLite's own waiting is unfair to processes that write little."""
    give_up = time.monotonic() + _BUSY
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
        time.sleep(random.uniform(0.0003, 0.0007))


@contextmanager
def busy_timeout(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """SQLite waits no longer than this for others."""
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}").fetchall()
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(_BUSY * 1000)}").fetchall()


def roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # not after a full disk: SQLite has done it
        connection.execute("ROLLBACK")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    if path.is_dir():
        raise JournalError(f"The journal {path} cannot be opened: it is a directory. Set [journal] path to a file.")
    uri = f"{path.absolute().as_uri()}?{how}"
    # Transactions are ours: `autocommit=False` of Python 3.12 would start one before WAL can be switched on.
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def _check_place(path: Path) -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise JournalError(
            f"The journal needs SQLite 3.37 or newer; this Python has {sqlite3.sqlite_version}. "
            "Use a newer Python, or set [journal] enabled = false."
        )
    kind = file_system(path)
    if kind in _NETWORK:
        raise JournalError(
            f"The journal {path} is on a network file system ({kind}), where SQLite cannot lock it. "
            "Set [journal] path to a local file."
        )


def file_system(path: Path) -> str:
    """The type of the file system that a path is or would be on; empty where the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    place = path.resolve().parent
    while not place.exists():
        place = place.parent
    best = ("", "")
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mounted = fields.split()[4].encode().decode("unicode_escape", "replace")
        if place.is_relative_to(mounted) and len(mounted) >= len(best[0]):
            best = (mounted, rest.split()[0])
    return best[1]


def _make_private(path: Path) -> None:
    """Only the owner may read the file, and no repository picks it up. `-wal` and `-shm` inherit its mode."""
    path = path.resolve()  # where the name is a link, the file that it means, which may not be there yet
    make_private_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version, application = _check_owner(connection, path)
    scripts = migrations()
    if version > len(scripts):
        raise JournalError(
            f"The journal {path} was written by a newer toolrun, so this one does not write to it. Update toolrun."
        )
    if version == len(scripts):
        return
    if not application:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # possible only before the first table
    _switch_to_wal(connection)
    begin(connection)
    try:
        version = _check_owner(connection, path)[0]  # another process may have done it meanwhile
        for number, script in enumerate(scripts[version:], version + 1):
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    if not application:  # so that the file itself says whose it is, and not only its log
        with suppress(sqlite3.Error), busy_timeout(connection, 0.0):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _check_owner(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """The version of the file and whose it is. Raises JournalError for a file of another program."""
    with _one_moment(connection):  # another process may be making the file
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if application != APPLICATION_ID and not (is_empty and version == 0 and application == 0):
        raise JournalError(
            f"The journal {path} cannot be used: it is a database of another program. "
            f"{_ADVICE[sqlite3.SQLITE_NOTADB].format(path=path)}"
        )
    return version, application


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read here is of one moment, whatever other processes write."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(connection)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    give_up = time.monotonic() + _BUSY
    while True:
        try:  # fails at once, whatever the timeout, while another process does the same
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError:
            if time.monotonic() > give_up:
                raise
            time.sleep(random.uniform(0.001, 0.003))
            continue
        if mode != "wal":
            raise JournalError(f"SQLite cannot use write-ahead logging here (it says '{mode}'). Set [journal] path.")
        return


def _statements(script: str) -> list[str]:
    """`executescript` would commit the open transaction first."""
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
