"""The bytes of a journal's file, seen past SQLite: whether somebody has written another file over it.

`cp backup.db journal.db` leaves the name and the number of the file as they were. SQLite does not notice: it goes on
with its log, and mixes both files at the next checkpoint. In WAL mode nothing but a checkpoint changes the file itself,
and a checkpoint never takes its change counter back, nor the mark of our application away
(https://sqlite.org/fileformat2.html#the_database_header).

Closing any descriptor of a file drops the locks that SQLite has on it in this process, so the file is opened once per
process, here and nowhere else, and closed after the last connection that writes.
"""

from __future__ import annotations

import os
import stat
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from toolrun.errors import JournalError
from toolrun.journal.database import APPLICATION_ID

_MAGIC: Final = b"SQLite format 3\0"
_COUNTER: Final = struct.Struct(">24xI40xI")
"""The change counter and the application id in the header."""
_HEADER: Final = 100
_STILL: Final = 0.3
"""Seconds for which a file must not have changed to be taken for whole."""
_PATIENCE: Final = 5.0
_PAUSE: Final = 0.05
_CHUNK: Final = 1024 * 1024


class Stamp(NamedTuple):
    """What changes when somebody writes to a file."""

    changed_at: int
    size: int

    @staticmethod
    def of(status: os.stat_result) -> Stamp:
        return Stamp(status.st_mtime_ns, status.st_size)


class _Header(NamedTuple):
    counter: int
    application: int


class FileContent:
    """One file, whatever its name is by now. Made by `FileContent.open`, which shares it in a process."""

    _shared: Final[dict[tuple[int, int], FileContent]] = {}
    _guard = threading.Lock()

    def __init__(self, descriptor: int, identity: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._identity = identity
        self._users = 0

    @classmethod
    def open(cls, path: Path) -> FileContent:
        with cls._guard:
            status = path.stat()
            identity = (status.st_dev, status.st_ino)
            found = cls._shared.get(identity)
            if found is None:
                found = cls._shared[identity] = cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC), identity)
            found._users += 1
            return found

    def close(self) -> None:
        with self._guard:
            self._users -= 1
            if self._users == 0:
                del self._shared[self._identity]
                os.close(self._descriptor)

    def header(self) -> _Header | None:
        """None for a file that is no database."""
        data = os.pread(self._descriptor, _HEADER, 0)
        return _Header(*_COUNTER.unpack_from(data)) if len(data) == _HEADER and data.startswith(_MAGIC) else None

    def stamp(self) -> Stamp:
        return Stamp.of(os.fstat(self._descriptor))

    def move_to_new_file(self, path: Path) -> None:
        """Give the content a file of its own under that name, which all who have the old one open notice."""
        self._wait_until_still(path)
        if not self._has_name(path):  # another process was faster
            return
        path = path.resolve()  # as SQLite does: a link stays one
        copy = path.with_name(f"{path.name}-copy")
        copy.unlink(missing_ok=True)
        mode = stat.S_IMODE(os.fstat(self._descriptor).st_mode)
        try:
            with open(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:  # noqa: PTH123  a descriptor
                position = 0
                while data := os.pread(self._descriptor, _CHUNK, position):
                    file.write(data)
                    position += len(data)
            for end in ("-wal", "-shm"):  # those of what was here before
                path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
            copy.replace(path)
        except BaseException:
            with suppress(OSError):
                copy.unlink(missing_ok=True)
            raise

    def _has_name(self, path: Path) -> bool:
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def _wait_until_still(self, path: Path) -> None:
        """Whoever copies may not be done yet."""
        give_up = time.monotonic() + _PATIENCE
        last, since = self.stamp(), time.monotonic()
        while time.monotonic() < since + _STILL:
            time.sleep(_PAUSE)
            now = self.stamp()
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() > give_up:
                raise JournalError(f"The journal {path} is being overwritten by another program.")


class SeenContent:
    """What one connection has seen of the file so far."""

    def __init__(self, content: FileContent) -> None:
        self.content = content
        self.look()

    def look(self) -> None:
        """What is there now was written by a checkpoint."""
        self._stamp, self._header = self.content.stamp(), self.content.header()

    def is_replaced(self, stamp: Stamp) -> bool:
        """Whether the file, which looks like this now, was overwritten by something else than a checkpoint."""
        if stamp == self._stamp:
            return False
        found, known = self.content.header(), self._header
        if found is None or known is None:
            return found is not known
        if found.counter < known.counter or found.application not in (known.application, APPLICATION_ID):
            return True
        self._stamp, self._header = stamp, found
        return False
