"""The file of a journal as its writer has it open: opened again when it was deleted, moved, replaced or overwritten,
left alone when it is damaged, checkpointed when its log has grown, and closed while the process forks. Knows nothing of
calls.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

from toolrun.journal.database import begin, beside, busy_timeout, damaged, explained, open_writer
from toolrun.journal.file_check import FileCheck
from toolrun.journal.file_content import FileContent, SeenContent, Stamp
from toolrun.logger import get_logger

logger = get_logger("toolrun.journal")

_MAX_WAL: Final = 4 * 1024 * 1024
"""Bytes of the log beside the database that are worth a checkpoint."""
_CHECKPOINT_WAIT: Final = 0.02
"""Seconds that a checkpoint waits for a reader in the middle."""
_CHECKPOINT_PAUSE: Final = 1.0
"""Seconds from one checkpoint to the next."""


class JournalFile:
    """The connection that writes."""

    def __init__(
        self,
        path: Path,
        *,
        is_power_safe: bool,
        move_in: Callable[[sqlite3.Connection], None],
        lock_again: Callable[[sqlite3.Connection], None],
    ) -> None:
        """`move_in` writes what must be in a file before anything else; called again when the file is another one.

        `lock_again` is called when only the lock file beside it is another one.
        """
        self.path = path
        self.connection: sqlite3.Connection | None = None
        self.lock = threading.Lock()
        """Held while the file is used: a fork at such a moment would take half a transaction along."""
        self._is_power_safe = is_power_safe
        self._move_in = move_in
        self._lock_again = lock_again
        self._name = str(path)
        self._wal_name = self._shm_name = self._lock_name = ""
        self._identity: tuple[int, int] | None = None
        self._name_identity: tuple[int, int] | None = None
        """Of the name itself, which may be a link."""
        self._wal: tuple[int, int] | None = None
        self._shm: tuple[int, int] | None = None
        self._wal_size = 0
        self._next_checkpoint = 0.0
        self._lock_file: tuple[int, int] | None = None
        self._content: SeenContent | None = None
        self._check: FileCheck | None = None
        self.damage: str | None = None
        """What is wrong with the content of the file. It is not used until somebody has moved it away."""
        self.open()

    def open(self) -> sqlite3.Connection:
        """Raises JournalError."""
        connection = open_writer(self.path, is_power_safe=self._is_power_safe)
        with explained(self.path, "written", connection):
            identity, _ = _look_at(self._name)
            self._wal_name, self._shm_name, self._lock_name = (
                str(beside(self.path, end)) for end in ("-wal", "-shm", "-lock")
            )
            if identity != self._identity:
                self._move_in(connection)
                self._lock_file, _ = _look_at(self._lock_name)
            else:
                self._check_lock(connection)
            self._identity, (self._wal, self._wal_size) = identity, _look_at(self._wal_name)
            self._name_identity = _identity_of_name(self._name)
            self._shm, _ = _look_at(self._shm_name)
            self._content = SeenContent(FileContent.open(self.path))
        self.connection = connection
        return connection

    def ready(self) -> sqlite3.Connection:
        """SQLite goes on writing to a file that was deleted or moved, and says that all is well."""
        status = _status(self._name)
        is_there = status is not None and self._is_ours(status)
        if self.connection is not None:
            wal, self._wal_size = _look_at(self._wal_name)
            if status is not None and is_there:
                assert self._content is not None
                if self._content.is_replaced(Stamp.of(status)):
                    self._move_away()
                    is_there = False
                elif wal == self._wal and self.damage is None:
                    self._check_lock(self.connection)
                    return self.connection
            if self.damage is None or not is_there:
                self._leave()
        if self.damage is not None and is_there:
            raise damaged(self.path, self.damage)
        self.damage = None
        return self.open()

    def _is_ours(self, status: os.stat_result) -> bool:
        """Whether the name still means the file that is open, in the same way: where somebody moves the file and puts a
        link in its place, others find its log and its lock file beside the new name."""
        return (status.st_dev, status.st_ino) == self._identity and _identity_of_name(self._name) == self._name_identity

    @property
    def problem(self) -> str | None:
        """What is wrong with the content of the file, and what to do."""
        return None if self.damage is None else str(damaged(self.path, self.damage))

    def check(self, on_whole: Callable[[], None]) -> None:
        """See in the background whether the file is whole; if not, it is not used any more."""

        def on_end(damage: str | None) -> None:
            if damage is None:
                on_whole()
            else:
                self.damage = damage

        self._check = FileCheck(self.path, on_end)

    def end_check(self, grace: float = 0.0) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.stop(grace)

    def _move_away(self) -> None:
        """Another file was written over this one. Nothing that SQLite knows of this file is true any more, so that
        file gets a number of its own, and this connection keeps what nobody has."""
        assert self._content is not None
        logger.warning("the journal %s was overwritten with another file while toolrun runs", self.path)
        self.end_check()
        self._content.content.move_to_new_file(self.path)

    def _leave(self) -> None:
        """The file is not ours any more, or its log is not."""
        status = _status(self._name)
        if status is not None and self._is_ours(status):
            # SQLite has the log open, and so all that is in it. Once it is in the database, nothing is missing.
            is_whole = self._is_all_checkpointed()
            logger.warning(
                "%s was deleted while toolrun is running; %s. Leave this file alone: it is a part of the journal",
                self._wal_name,
                "nothing is lost" if is_whole else "the last calls in it may be lost",
            )
        else:
            is_whole = False
            logger.warning(
                "the journal %s was deleted, moved or replaced while toolrun is running; "
                "toolrun continues with the file that is there now, or starts a new one",
                self.path,
            )
            # SQLite would take what is in this log for changes to the file that is there now, whosever that is. While
            # the log is open, no other file can have its number.
            for name, own in ((self._wal_name, self._wal), (self._shm_name, self._shm)):
                if own is not None and _look_at(name)[0] == own:
                    Path(name).unlink(missing_ok=True)
        self.close()
        if not is_whole:
            self._identity = None  # a new file may get the number of the one that was deleted

    def _is_all_checkpointed(self) -> bool:
        assert self.connection is not None
        try:
            busy, in_log, moved = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:
            return False
        return not busy and in_log == moved

    def _check_lock(self, connection: sqlite3.Connection) -> None:
        """Without the file in which this process holds its lock, others take it for dead."""
        found, _ = _look_at(self._lock_name)
        if found != self._lock_file or found is None:
            logger.warning(
                "the lock file %s was deleted or replaced while toolrun is running; toolrun locks it again. Leave this "
                "file alone: it is never stale",
                self._lock_name,
            )
            self._lock_again(connection)
            self._lock_file, _ = _look_at(self._lock_name)

    def checkpoint(self) -> None:
        """Move the log into the database if it has grown, after those who wait were told: it takes milliseconds."""
        if self._wal_size <= _MAX_WAL or self.connection is None or monotonic() < self._next_checkpoint:
            return
        with suppress(sqlite3.Error):
            # Without the write lock it would be a PASSIVE one (see database.py), so the lock must be free. With it, it
            # waits for readers, and everybody waits for it: not for long.
            begin(self.connection)
            self.connection.execute("COMMIT")
            with busy_timeout(self.connection, _CHECKPOINT_WAIT):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if self._content is not None:
            self._content.look()
        self._next_checkpoint = monotonic() + _CHECKPOINT_PAUSE

    def close(self) -> None:
        """Until somebody wants it again."""
        connection, self.connection = self.connection, None
        content, self._content = self._content, None
        if connection is not None:
            connection.close()
        if content is not None:
            content.content.close()

    # A process that forks. SQLite's locks belong to the process that took them, and SQLite in the child would believe
    # that it has those of the parent (https://sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork).

    def prepare_fork(self) -> None:
        self.end_check()  # another program will do it
        self.lock.acquire()
        self.close()

    def resume_after_fork(self) -> None:
        self.lock.release()

    def restart_in_child(self) -> None:
        self.lock = threading.Lock()
        self._identity = None


def _look_at(name: str) -> tuple[tuple[int, int] | None, int]:
    """Which file has this name, and its size."""
    status = _status(name)
    return (None, 0) if status is None else ((status.st_dev, status.st_ino), status.st_size)


def _identity_of_name(name: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(name)  # once for each commit
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _status(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)  # noqa: PTH116  once for each commit
    except FileNotFoundError:
        return None
