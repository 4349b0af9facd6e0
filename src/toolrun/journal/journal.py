"""The record of calls: one file per project, written by one thread per process, read by anybody.

Knows records, not executors: `CallRecorder` makes records of calls. A journal that cannot be written never stops a call
by itself; what could not be recorded is counted, and the gap is recorded as soon as there is room.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from time import time_ns
from typing import Final, TypeVar

from toolrun.journal.call_record import CallRecord, Ending, ToolRow, boot_id
from toolrun.journal.call_row import CallRows
from toolrun.journal.database import beside
from toolrun.journal.liveness import LockFile, Membership
from toolrun.journal.retention import Retention
from toolrun.journal.settlement import settle
from toolrun.journal.statements import sql
from toolrun.journal.stored_answer import Answers
from toolrun.journal.writer import Writer
from toolrun.redaction import Redactor
from toolrun.version import __version__

T = TypeVar("T")

_CHECK_GRACE: Final = 0.2
"""Seconds that the look at the file has left when a program ends. Otherwise the next program begins it anew."""


class Journal:
    """Open until `close`, which writes the rest. Raises JournalError if the file cannot be used."""

    def __init__(
        self,
        path: Path,
        *,
        consumer: str = "",
        redactor: Redactor | None = None,
        is_power_safe: bool = False,
        max_chars: int = 16_384,
        answers: Answers = Answers.PLAIN,
        retention: Retention | None = None,
        keeps_conversations: bool = True,
    ) -> None:
        self.path = path
        self.consumer = consumer
        self.held: dict[str, object] = {}
        """The conversations that were opened here, by name. Changed in transactions only."""
        self.keeps_conversations = keeps_conversations
        self._locks: LockFile | None = None
        self._is_closed = False
        self._membership: Membership | None = None
        self._lost: list[int] = []
        """Processes that were dead when this one opened the file, and had not said that they end."""
        self._pid = os.getpid()
        self.redactor = redactor or Redactor()
        self._rows = CallRows(self.redactor, max_chars, consumer, answers)
        try:
            self._writer = Writer(
                path,
                is_power_safe=is_power_safe,
                rows=self._rows,
                on_open=self._register,
                retention=retention or Retention(),
            )
        except BaseException:
            self._let_go()
            raise
        if self._lost:
            self._writer.file.check(self._note_lost)
        self.new_id = self._rows.new_id
        """A number that no other call in the file has."""
        self.is_full = self._writer.is_full
        """Whether a caller should `drain` before the next call."""
        self.add = self._writer.put
        """Write a record soon: a call without effects that starts, or one that is over."""

    @property
    def process(self) -> int:
        """The row of this process."""
        return self._rows.process

    @property
    def commits(self) -> int:
        """Transactions of this process that are on disk."""
        return self._writer.commits

    @property
    def problem(self) -> str | None:
        """Why nothing can be written at the moment."""
        return self._writer.problem or self._writer.file.problem

    def new_record(self, tool: ToolRow, arguments: str, effects: str | None, age_us: int = 0) -> CallRecord:
        """A call that came in `age_us` ago. Nothing is written yet."""
        return CallRecord(self._rows.new_id(), tool, time_ns() // 1000 - age_us, arguments, effects)

    def add_and_wait(self, record: CallRecord, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Write a record now. The future is done when it is on disk, or has NotRecordedError."""
        record.waiter = waiter = loop.create_future()
        self._writer.put_urgently(record)
        return waiter

    def end(self, record: CallRecord, ending: Ending, is_urgent: bool = False) -> None:
        """Say how a call ended that was added before."""
        record.ending = ending  # before the look at `is_taken`: the writer looks at them in the other order
        if record.is_taken:
            record.is_taken = False
            (self._writer.put_soon if is_urgent else self._writer.put)(record)

    def run(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run a transaction in its turn, after everything that was added before."""
        return self._writer.run(function)

    def settle(
        self, id: int, settled_as: str, settled_by: str, result: str | None = None, answer: str | None = None
    ) -> Future[str | None]:
        """Put an end to a doubt, with what is known of the result by now. Tells why that cannot be done, or None."""

        def work(connection: sqlite3.Connection) -> str | None:
            problem = settle(connection, id, settled_as, settled_by)
            if problem is None:
                self._rows.add_result(connection, id, result, answer)
            return problem

        return self.run(work)

    def attempt_ended(self, id: int) -> None:
        """A call that is in doubt cannot act any more."""
        self.run(lambda connection: connection.execute(sql("attempt_ended"), (time_ns() // 1000, id)))

    async def drain(self) -> None:
        """Wait until everything that was added so far has been written. Raises NotRecordedError."""
        await asyncio.wrap_future(self._writer.run(lambda _: None))

    def flush(self) -> None:
        """`drain` for whoever has no event loop."""
        self._writer.run(lambda _: None).result()

    def write_now(self, connection: sqlite3.Connection, record: CallRecord) -> None:
        """Write a record in a transaction that is running (see `run`)."""
        record.is_taken = True
        self._rows.write(connection, [record])
        self._writer.watch(record)

    def is_alive(self, process: int) -> bool:
        """Whether the process with that row is still there."""
        assert self._locks is not None
        return self._locks.is_alive(process)

    def is_held(self, conversation: str) -> bool:
        """Whether this process has that conversation."""
        assert self._membership is not None
        return any(conversation in names for names in self._membership.held.values())

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.file.end_check(_CHECK_GRACE)
        if self._rows.process:  # a forked child that made no call has none
            self._writer.run(self._leave)
        self._writer.close()
        self._let_go()

    def _note_lost(self) -> None:
        """The file is whole, whatever became of these processes."""
        note = [(time_ns() // 1000, process) for process in self._lost]
        self.run(lambda connection: connection.executemany(sql("note_lost_process"), note))

    def _let_go(self) -> None:
        if self._locks is not None:
            self._locks.close()

    def _leave(self, connection: sqlite3.Connection) -> None:
        assert self._membership is not None
        self._membership.held.pop(id(self), None)
        if not self._membership.held:
            connection.execute(sql("process_ended"), (time_ns() // 1000, self._rows.process))

    def _register(self, connection: sqlite3.Connection) -> int:
        """Give this process a row, and hold its lock before anybody can see the row."""
        if self._pid != os.getpid():
            self._pid, self._locks, self._membership = os.getpid(), None, None  # those are the parent's
        previous, locks = self._locks, LockFile.open(beside(self.path, "-lock"))
        self._locks = locks
        if previous is not None:
            previous.close()
        connection.execute("BEGIN IMMEDIATE")
        locks.learn(connection)
        membership = locks.membership = self._join(connection, locks.membership or self._membership)
        membership.held[id(self)] = self.held
        self._membership = membership
        self._rows.count_with(membership.numbers)
        locks.hold(membership.row)
        others = [it for (it,) in connection.execute(sql("open_processes")) if it != membership.row]
        self._lost = [it for it in others if not locks.is_alive(it)]
        for (other,) in connection.execute(sql("owners_of_started")).fetchall():
            if not locks.is_alive(other):
                connection.execute(sql("doubt_calls_of"), (other,))
        for (other,) in connection.execute(sql("owners_of_conversations")).fetchall():
            if not locks.is_alive(other):
                connection.execute(sql("end_conversations_of"), (other,))
        connection.execute("COMMIT")
        return membership.row

    def _join(self, connection: sqlite3.Connection, known: Membership | None) -> Membership:
        """The row of this process; in a file that was replaced, one with the number it had before, if that is free."""
        wanted: int | None = None
        if known is not None:
            if connection.execute(sql("process_goes_on"), (known.row, *_own_name(), known.started_at)).rowcount:
                return known
            if connection.execute(sql("process_exists"), (known.row,)).fetchone() is None:
                wanted = known.row
        now = time_ns() // 1000
        row = connection.execute(
            sql("register_process"), (wanted, *_own_name(), self.consumer, __version__, now)
        ).lastrowid
        assert row is not None
        if known is None:
            return Membership(row, now)
        known.row, known.started_at = row, now
        return known


def _own_name() -> tuple[int, str]:
    return os.getpid(), boot_id()
