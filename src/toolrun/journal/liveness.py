"""Which processes that write to a journal are alive: each holds a record lock on one byte of a file beside it.

The byte's number is the process's row. The kernel drops the lock with the process, however it ends, and shows it to
every other process, also in another PID namespace. A heartbeat or a lease would declare a process dead that was only
stopped for a while, and its calls would be repeated while it still acts.

A process holds its byte until it ends, and not only while it has a journal open: a thread that was given up may act
after that. So all journals of a process on one file share a row and a lock.

POSIX drops all locks of a process on a file when the process closes *any* descriptor of that file, so each lock file is
opened once per process, here and nowhere else. A forked child inherits no locks: it must register anew.

Somebody may delete the file, because it looks like a stale lock. A lock file that is younger than the row of a process
knows nothing of that process, so there the process table is asked as well.

What a process has started holds no lock: the workers and servers of one that was killed live for a moment longer.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from toolrun.journal.call_record import boot_id
from toolrun.journal.statements import sql
from toolrun.processes.orphans import wait_for_orphans

_FLOCK: Final = struct.Struct("qqihh" if sys.platform == "darwin" else "hhqqi4x")
"""`struct flock`: on Linux type, whence, start, length, pid; on macOS start, length, pid, type, whence."""
_TYPE: Final = 3 if sys.platform == "darwin" else 0
_SLACK: Final = 2_000_000
"""Microseconds by which the system may be wrong about when a process started."""
_PROC: Final = Path("/proc")


@dataclass(eq=False, slots=True)
class Membership:
    """This process in one journal, whatever number of `Journal`s it opens there."""

    row: int
    started_at: int
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    """Of its calls."""
    held: dict[int, dict[str, object]] = field(default_factory=dict)
    """The conversations of each open `Journal`, by its `id()`."""


class _OlderProcess(NamedTuple):
    """A process as its row describes it."""

    pid: int
    boot: str
    started_at: int


class LockFile:
    """The lock file of one journal. Made by `LockFile.open`, which gives every caller in a process the same one."""

    _shared: Final[dict[tuple[int, int], LockFile]] = {}
    _guard = threading.Lock()

    def __init__(self, descriptor: int | None, identity: tuple[int, int], made_at: int) -> None:
        self.membership: Membership | None = None
        """Changed in transactions that write only."""
        self._descriptor = descriptor
        self._identity = identity
        self._made_at = made_at
        self._older: dict[int, _OlderProcess] = {}
        """Processes that may be alive though they cannot hold a lock here: their rows are older than the file."""
        self._own: set[int] = set()
        self._users = 0

    @classmethod
    def open(cls, path: Path) -> LockFile:
        """For a process that writes. Makes the file if it is not there."""
        with cls._guard:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            return cls._open(path)

    @classmethod
    def open_to_look(cls, path: Path) -> LockFile:
        """For a process that only reads, and perhaps may do no more than that."""
        with cls._guard:
            try:
                return cls._open(path)
            except FileNotFoundError:
                return cls(None, (0, 0), sys.maxsize)

    @classmethod
    def _open(cls, path: Path) -> LockFile:
        status = path.stat()
        identity = (status.st_dev, status.st_ino)
        shared = cls._shared.get(identity)
        if shared is None:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # enough to look
            shared = cls(descriptor, identity, status.st_mtime_ns // 1000)  # it is never written to
            cls._shared[identity] = shared
        shared._users += 1
        return shared

    def learn(self, connection: sqlite3.Connection) -> None:
        """Look which processes are older than the file, which most often are none."""
        first = connection.execute(sql("first_process")).fetchone()
        if first is not None and first[0] < self._made_at:
            rows = connection.execute(sql("processes_before"), (self._made_at,))
            self._older = {row[0]: _OlderProcess(*row[1:]) for row in rows}

    def close(self) -> None:
        """The locks stay until the process ends."""
        with self._guard:
            self._users -= 1
            if self._users == 0 and not self._own and self._shared.get(self._identity) is self:
                self._let_go()

    def _let_go(self) -> None:
        del self._shared[self._identity]
        if self._descriptor is not None:
            os.close(self._descriptor)

    def hold(self, process: int) -> None:
        """From now on this process is the one with that row, until it ends."""
        if process not in self._own:
            assert self._descriptor is not None
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, process, os.SEEK_SET)
            self._own.add(process)

    def is_alive(self, process: int) -> bool:
        """Whether the process with that row still holds its lock, or may be there without one."""
        if process in self._own:
            return True  # the kernel does not show a process its own locks
        if self._descriptor is not None and self._is_held(process):
            return True
        older = self._older.get(process)
        if older is None:
            return False
        if _is_there(older):
            return True
        self._older.pop(process, None)
        return False

    def _is_held(self, process: int) -> bool:
        assert self._descriptor is not None
        fields = (process, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
        if sys.platform != "darwin":
            fields = (fcntl.F_WRLCK, os.SEEK_SET, process, 1, 0)
        answer = fcntl.fcntl(self._descriptor, fcntl.F_GETLK, _FLOCK.pack(*fields))
        return bool(_FLOCK.unpack(answer)[_TYPE] != fcntl.F_UNLCK)

    @classmethod
    def _forget(cls) -> None:
        """In a forked child: none of the locks is its own."""
        cls._guard = threading.Lock()
        for shared in list(cls._shared.values()):
            shared._let_go()  # drops no lock of the parent's


def is_reaped(pid: int, boot: str, timeout: float = 0.0) -> bool:
    """Whether all workers and servers of a dead process have ended, which may take so many seconds."""
    return boot != boot_id() or wait_for_orphans(pid, timeout)


def _is_there(process: _OlderProcess) -> bool:
    """Whether the process table has this process. One in a container beside this one is not seen."""
    if process.boot != boot_id():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        pass
    try:
        fields = (_PROC / str(process.pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        boot_time = next(it for it in (_PROC / "stat").read_text().splitlines() if it.startswith("btime "))
    except (OSError, StopIteration):  # not Linux: there is nothing more to know
        return True
    started_at = int(boot_time.split()[1]) * 1_000_000 + int(fields[19]) * 1_000_000 // os.sysconf("SC_CLK_TCK")
    return fields[0] != "Z" and started_at <= process.started_at + _SLACK  # else its number is used again


os.register_at_fork(after_in_child=LockFile._forget)
