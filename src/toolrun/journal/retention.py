"""What may be forgotten: old calls and conversations, the oldest first when the file is too large. Never an unsettled
doubt, and never a conversation that somebody has or that was cut off in the middle of a turn.

Deleting goes in small steps, because calls that may act wait behind it: one between two batches of the writer.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from time import time_ns
from typing import Final

from toolrun.journal.database import begin
from toolrun.journal.statements import sql

_STEP: Final = 1000
_CONVERSATIONS: Final = 10
"""Conversations that are deleted in one step."""
_TASK: Final = "retention"
_DAY: Final = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long calls are kept."""

    days: float = 30.0
    max_bytes: int = 500 * 1024 * 1024
    key_days: float = 7.0
    """A key that is used again later is a new one, and answers are kept no longer than their keys."""
    spared: int = 10_000
    """The newest calls stay whatever their age: a clock that jumps ahead would empty the file otherwise."""

    def is_due(self, connection: sqlite3.Connection) -> bool:
        """Whether nobody has done all of it for a day, or the clock was wrong the last time."""
        found = connection.execute(sql("upkeep_done"), (_TASK,)).fetchone()
        return found is None or not 0 <= time_ns() // 1000 - found[0] < _DAY

    def step(self, connection: sqlite3.Connection) -> bool:
        """Delete some of what is too old or too much. Whether there may be more."""
        now = time_ns() // 1000
        for statement in ("end_conversations_of_old_utterances", "delete_old_utterances"):  # nobody goes on with those
            connection.execute(sql(statement), (now - _DAY,))
        connection.execute(sql("delete_old_approvals"), (now - int(self.days * _DAY), now, _STEP))
        if self._change(connection, ("forget_old_keys", "delete_answer"), now - int(self.key_days * _DAY)) == _STEP:
            return True
        is_too_large = _size(connection) > self.max_bytes
        before = now if is_too_large else now - int(self.days * _DAY)
        deleted = self._change(connection, ("delete_old_calls", "delete_answer", "delete_log_lines"), before)
        has_deleted = self._delete_conversations(connection, before) or deleted > 0
        if deleted == _STEP or (is_too_large and has_deleted):
            return True
        connection.execute(sql("note_upkeep"), (_TASK, now))
        return False

    def _change(self, connection: sqlite3.Connection, statements: tuple[str, ...], before: int) -> int:
        """One step. The first statement finds the calls for the others. Returns how many these are."""
        begin(connection)
        found: list[tuple[int]] = connection.execute(sql(statements[0]), (before, self.spared, _STEP)).fetchall()
        for statement in statements[1:]:
            connection.executemany(sql(statement), found)
        connection.execute("COMMIT")
        connection.execute("PRAGMA incremental_vacuum(200)").fetchall()
        return len(found)

    def _delete_conversations(self, connection: sqlite3.Connection, before: int) -> bool:
        begin(connection)
        ids = connection.execute(sql("old_conversations"), (before, _CONVERSATIONS)).fetchall()
        for id in ids:
            connection.execute(sql("delete_messages_of"), id)
            connection.execute(sql("delete_conversation"), id)
        connection.execute("COMMIT")
        return bool(ids)


def _size(connection: sqlite3.Connection) -> int:
    """Bytes in use."""
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    size: int = connection.execute("PRAGMA page_size").fetchone()[0]
    return (pages - free) * size
