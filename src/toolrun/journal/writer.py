"""The one thread that writes to a journal: takes what was queued, writes it in one transaction, tells who waits for it.

Everything goes through one queue, so what is on disk is always a prefix of what happened. Handing over costs the caller
an append; the thread is woken only if somebody waits, or if it sleeps. A call that starts and ends within one batch is
one row. Knows nothing of tools and executors.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakSet

from toolrun.errors import JournalError
from toolrun.journal.call_record import CallRecord, FinishedCall, record_of
from toolrun.journal.call_row import CallRows
from toolrun.journal.database import begin, damaged, is_damage, roll_back, why_not_written
from toolrun.journal.housekeeping import USUAL_PAUSE, keep_house, keep_house_at_end
from toolrun.journal.journal_file import JournalFile
from toolrun.journal.retention import Retention
from toolrun.journal.statements import sql
from toolrun.journal.wakeup import FirstUse, Wakeup
from toolrun.journal.writer_job import NotRecordedError, WriterJob, perform, wake_all
from toolrun.logger import get_logger

logger = get_logger("toolrun.journal")

T = TypeVar("T")

_MAX_BATCH: Final = 1024
MAX_QUEUED: Final = 4096 - _MAX_BATCH
"""Records in the queue; beyond it callers wait for the thread. With a batch that is being written no more than 4096 are
lost with the process."""
_LINGER: Final = 0.02
"""Seconds that records for which nobody waits may lie in the queue, so that they share a commit."""
_MOMENT: Final = 0.0005
"""Seconds in which calls that were just let go may end: their ends come without waking anybody, and share a commit."""
_ENOUGH: Final = _MAX_BATCH
"""Records that are worth a commit of their own."""
_NEVER: Final = sys.maxsize
_RETRY: Final = 1.0
"""Seconds between two attempts to write when the last one failed."""


Item: TypeAlias = CallRecord | FinishedCall | WriterJob[Any]


class Writer:
    """Owns the file, the queue and the thread."""

    def __init__(
        self,
        path: Path,
        *,
        is_power_safe: bool,
        rows: CallRows,
        on_open: Callable[[sqlite3.Connection], int],
        retention: Retention,
    ) -> None:
        """`on_open` registers the process and returns its row; it is called again when the file was replaced."""
        self.path = path
        self.problem: str | None = None
        """Why nothing can be written at the moment."""
        self.lost = 0
        """Calls that are not recorded, because there was no room to keep them until they could be."""
        self.commits = 0
        """Transactions that are on disk."""
        self._rows = rows
        self._on_open = on_open
        self._retention = retention
        self._queue: deque[Item] = deque()
        self._open_calls: dict[int, CallRecord] = {}
        self._backlog: dict[int, CallRecord] = {}
        self._claimed: list[int] = []
        """Calls that the jobs of the running transaction have written."""
        self._gap_since: int | None = None
        self._gap_calls = 0
        self._next_attempt = 0.0
        self._last_error = Exception()
        self._wake = Wakeup()
        self._wake_at = _NEVER
        """How many records must be queued to wake the thread: never while it works, because waking takes time."""
        self._is_urgent = False
        self._has_let_go = False
        """Whether the last batch had a start row that somebody waited for."""
        self._is_awake_soon = False
        self._is_closing = False
        self._next_housekeeping = monotonic() + USUAL_PAUSE
        self._written = 0
        """Calls of this process in the file."""
        self._since = time_ns() // 1000
        self.file = JournalFile(path, is_power_safe=is_power_safe, move_in=self._move_in, lock_again=self._lock_again)
        self._thread: threading.Thread | None = None
        self._start_thread()
        _writers.add(self)

    # What callers do, from any thread.

    def put(self, record: CallRecord | FinishedCall) -> None:
        """Write this in your own time."""
        self._queue.append(record)
        if len(self._queue) >= self._wake_at:
            self._wake_at = _NEVER
            self._wake.set()

    def put_urgently(self, record: CallRecord) -> None:
        """Write this now: somebody waits for it."""
        self._queue.append(record)
        self._hurry()

    def put_soon(self, record: CallRecord) -> None:
        """Write this in a moment: nobody waits for it, but until it is on disk a crash would leave a doubt."""
        self._queue.append(record)
        if not self._is_awake_soon:  # after the append: the thread looks at the queue when that has become false
            self._hurry()

    def run(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run a function in the transaction of the next batch, after everything that was queued before.

        The future has an exception if the function raised, or if the transaction could not be committed.
        """
        job = WriterJob(function)
        if self._is_closing:
            job.outcome.set_exception(NotRecordedError("The journal is closed"))
            return job.outcome
        self._queue.append(job)
        self._hurry()
        return job.outcome

    def _hurry(self) -> None:
        self._is_urgent = True  # before the look whether the thread sleeps: it looks at them in the other order
        if self._wake_at != _NEVER:
            self._wake_at = _NEVER
            self._wake.set()

    def watch(self, record: CallRecord) -> None:
        """In the thread: a call that was written just now, runs, and is to be written again if the file is replaced."""
        self._open_calls[record.id] = record
        self._claimed.append(record.id)

    def is_full(self) -> bool:
        """Whether callers should wait, so that what is in memory stays bounded."""
        return len(self._queue) >= MAX_QUEUED

    def close(self) -> None:
        """Write what is queued, then let go of the file."""
        _writers.discard(self)
        self._is_closing = True
        if self._thread is not None:
            self._wake.set()
            self._thread.join()
        self.file.close()
        lost = self._gap_calls + len(self._backlog)
        if lost:
            logger.error("%s not recorded in the journal %s: %s", _were(lost), self.path, self.problem)

    # The thread.

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name="toolrun-journal", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            batch = self._next_batch()
            with self.file.lock:
                if batch:
                    self._write(batch)
                if monotonic() >= self._next_housekeeping:
                    self._keep_house()
            if not batch and self._is_closing and not self._queue:
                with self.file.lock:
                    keep_house_at_end(self.file.connection, self._retention, self.path)
                return

    def _next_batch(self) -> list[Item]:
        queue = self._queue
        is_due = self._has_let_go and not queue and self._wait_for_ends()
        if not queue and not self._is_closing:
            pause = max(0.0, self._next_housekeeping - monotonic())
            self._sleep(1, min(_RETRY, pause) if self._backlog else pause)
        if queue and not (self._is_urgent or is_due) and len(queue) < _ENOUGH and not self._is_closing:
            self._sleep(_ENOUGH, _LINGER)
        self._is_urgent = self._is_urgent and len(queue) > _MAX_BATCH
        return [queue.popleft() for _ in range(min(len(queue), _MAX_BATCH))] or self._again()

    def _wait_for_ends(self) -> bool:
        self._has_let_go, self._is_awake_soon = False, True
        self._sleep(_ENOUGH, _MOMENT)
        self._is_awake_soon = False
        return bool(self._queue)

    def _sleep(self, wake_at: int, timeout: float) -> None:
        """Until there are so many records, or one for which somebody waits."""
        self._wake_at = wake_at
        if len(self._queue) < wake_at and not self._is_urgent:  # it may have come before the number was set
            self._wake.wait(timeout)
        self._wake_at = _NEVER

    def _again(self) -> list[Item]:
        """What could not be written before, if nothing new has come."""
        return [*self._backlog.values()] if self._backlog and not self._is_closing else []

    def _write(self, batch: Sequence[Item]) -> None:
        records: dict[int, CallRecord] = dict(self._backlog)
        jobs: list[WriterJob[Any]] = []
        finished: list[FinishedCall] = []
        for item in batch:
            if type(item) is tuple:
                finished.append(item)
            elif isinstance(item, CallRecord):
                item.is_taken = True  # before its fields are read: whoever changes it later hands it over again
                records[item.id] = item
            elif isinstance(item, WriterJob) and item.outcome.set_running_or_notify_cancel():
                jobs.append(item)
        if self.problem is not None and not jobs and self._may_pass(records):
            self._fail(_with(records, finished, self._rows), jobs, self._last_error)
            return
        self._claimed.clear()
        try:
            connection = self.file.ready()
            known = len(records.keys() & self._open_calls.keys())
            begin(connection)
            running = self._rows.write_batch(connection, finished, records, self._open_calls)
            self._record_gap(connection)
            done = [job for job in jobs if perform(job, connection, self._rows.forget_tools)]
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  whatever it is, callers wait, and the thread must live on
            with suppress(sqlite3.Error):
                if self.file.connection is not None:
                    roll_back(self.file.connection)
            self._rows.forget_tools()  # a new one has no row now, and its number will be another one's
            for id in self._claimed:  # they have no row, and do not run
                self._open_calls.pop(id, None)
            if is_damage(error):  # what else it says of keys cannot be believed either
                self.file.damage = str(error)
                error = damaged(self.path, str(error))
            self._next_attempt, self._last_error = monotonic() + _RETRY, error
            self._fail(_with(records, finished, self._rows), jobs, error)
            return
        self._written += len(finished) + len(records) - known + len(self._claimed)
        self._succeed(records, running, done)
        self.file.checkpoint()

    def _may_pass(self, records: dict[int, CallRecord]) -> bool:
        """Whether not to try now. All that is kept would be written and rolled back for every call that waits."""
        if self._is_closing or monotonic() >= self._next_attempt:
            return False
        return not any(record.is_required and record.waiter is not None for record in records.values())

    def _succeed(self, records: dict[int, CallRecord], running: list[CallRecord], jobs: list[WriterJob[Any]]) -> None:
        if self.problem is not None:
            logger.warning("the journal %s is written again", self.path)
            self.problem = None
        self.commits += 1
        self._gap_since, self._gap_calls = None, 0
        self._backlog.clear()
        self._remember_open(records, running)
        self._tell(records, None)
        for job in jobs:
            job.outcome.set_result(job.value)

    def _fail(self, records: dict[int, CallRecord], jobs: list[WriterJob[Any]], error: Exception) -> None:
        reason = str(error)
        if self.problem is None:
            logger.error("%s Calls continue without it.", why_not_written(self.path, error))
            self._gap_since = time_ns() // 1000
        self.problem = reason
        self._remember_open(records, [record for record in records.values() if record.ending is None])
        self._backlog = records
        if not isinstance(error, sqlite3.Error | OSError | JournalError):  # our own mistake: it would fail again
            logger.error("the journal %s drops %d calls", self.path, len(records), exc_info=error)
            self._gap_calls += len(records)
            self.lost += len(records)
            self._backlog = {}
        while len(self._backlog) > MAX_QUEUED:
            self._backlog.pop(next(iter(self._backlog)))
            self._gap_calls += 1
            self.lost += 1
        failure = NotRecordedError(why_not_written(self.path, error))
        self._tell(records, failure)
        for job in jobs:
            if not job.outcome.done():
                job.outcome.set_exception(failure)

    def _remember_open(self, records: dict[int, CallRecord], running: list[CallRecord]) -> None:
        for id in records:
            self._open_calls.pop(id, None)
        for record in running:
            self._open_calls[record.id] = record

    def _tell(self, records: dict[int, CallRecord], error: NotRecordedError | None) -> None:
        """Wake those who wait for these records, with one call for each event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], bool]]] = {}
        for record in records.values():
            waiter, record.waiter = record.waiter, None
            if waiter is not None:
                by_loop.setdefault(waiter.get_loop(), []).append((waiter, record.is_required))
        self._has_let_go = bool(by_loop)
        for loop, waiters in by_loop.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(wake_all, waiters, error)

    def _record_gap(self, connection: sqlite3.Connection) -> None:
        if self._gap_calls and self._gap_since is not None:
            self._add_gap(connection, self._gap_since, self._gap_calls, self.problem or "")

    def _add_gap(self, connection: sqlite3.Connection, since: int, calls: int, reason: str) -> None:
        connection.execute(sql("add_gap"), (self._rows.process, since, time_ns() // 1000, calls, reason))

    def _move_in(self, connection: sqlite3.Connection) -> None:
        """The file is new to this process, which needs a row there, as do the calls that run."""
        self._rows.forget_tools()
        self._rows.process = self._on_open(connection)
        begin(connection)
        self._rows.write(connection, [call for id, call in self._open_calls.items() if id not in self._backlog])
        # A backup of the file, or one whose log alone is gone, has some of them.
        found: int = connection.execute(sql("count_calls"), (self._rows.process, self._since)).fetchone()[0]
        if self._written > found:
            reason = "the file with these calls was deleted or moved"
            self._add_gap(connection, self._since, self._written - found, reason)
        connection.execute("COMMIT")
        self._written = found

    def _lock_again(self, connection: sqlite3.Connection) -> None:
        """Others may have taken this process for dead, and doubted the calls that run."""
        self._rows.process = self._on_open(connection)
        begin(connection)
        self._rows.write(connection, self._open_calls.values())
        connection.execute("COMMIT")

    # A process that forks.

    def prepare_fork(self) -> None:
        """Let go of the file; the next batch opens it again."""
        self.file.prepare_fork()

    def resume_after_fork(self) -> None:
        self.file.resume_after_fork()

    def restart_in_child(self) -> None:
        """What is queued is the parent's. The child opens the file when it makes its first call, if it makes any."""
        self.file.restart_in_child()
        self._queue.clear()
        self._open_calls, self._backlog = {}, {}
        self._gap_since, self._gap_calls, self._written = None, 0, 0
        self.problem, self._thread = None, None
        self._is_urgent, self._wake_at = False, 0
        self._wake = FirstUse(self._start_in_child)
        self._rows.restart(self._wake.set)

    def _start_in_child(self) -> None:
        with suppress(sqlite3.Error, OSError, JournalError), self.file.lock:  # the thread tries again, and says so
            self.file.open()
        self._wake = Wakeup()
        self._start_thread()

    def _keep_house(self) -> None:
        connection = self.file.connection
        pause = USUAL_PAUSE if connection is None else keep_house(connection, self._retention, self.path)
        self._next_housekeeping = monotonic() + pause


def _with(records: dict[int, CallRecord], finished: Sequence[FinishedCall], rows: CallRows) -> dict[int, CallRecord]:
    return records | {record.id: record for record in (record_of(rows.new_id(), call) for call in finished)}


def _were(calls: int) -> str:
    return "1 call is" if calls == 1 else f"{calls} calls are"


_writers: Final[WeakSet[Writer]] = WeakSet()


def _before_fork() -> None:
    for writer in list(_writers):
        writer.prepare_fork()


def _after_fork() -> None:
    for writer in list(_writers):
        writer.resume_after_fork()


def _in_child() -> None:
    for writer in list(_writers):
        writer.restart_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
