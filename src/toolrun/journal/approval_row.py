"""Requests for approval and their answers, as rows of the journal.

    pending → allowed, denied     somebody has answered
            → withdrawn           the caller has gone
            → expired             nobody answered in time
    allowed, denied → used        by one call, if the answer was for one
                    → expired     no call came for it in time
                    → revoked     somebody took it back

An answer belongs to the fingerprint of its request, which is that of the tool, its definition and its exact arguments.
Taking one is a transaction, so of many calls that want an answer for one call, one gets it. Everything here runs in a
transaction of whoever owns the connection.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from time import time_ns
from typing import Any, Final, cast

from toolrun.journal.database import migrations
from toolrun.journal.statements import sql
from toolrun.json import JSON, loads

ONCE: Final = "once"
_NEVER: Final = 2**62
"""When an answer expires that holds for more than one call."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """What is written when somebody is to be asked."""

    fingerprint: bytes
    conversation: str
    tool: str
    source: str
    definition: str
    arguments: str
    withheld: str | None
    reason: str
    consumer: str
    expires: float


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer that holds for a call."""

    id: int
    is_allowed: bool
    edited: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """A row as it is shown."""

    id: int
    state: str
    fingerprint: bytes
    conversation: str
    tool: str
    source: str
    definition: str
    arguments: str
    withheld: str | None
    reason: str
    consumer: str
    asked_at: int
    expires_at: int
    scope: str | None
    edited: str | None
    comment: str | None
    answered_by: str | None
    answered_at: int | None

    def to_dict(self) -> dict[str, Any]:
        """What programs are told: times in seconds since 1970, and JSON as JSON, unless it was cut."""
        return {
            "id": self.id,
            "state": self.state,
            "tool": self.tool,
            "source": self.source,
            "arguments": _read(self.arguments),
            "withheld": self.withheld,
            "reason": self.reason,
            "conversation": self.conversation or None,
            "consumer": self.consumer,
            "asked_at": self.asked_at / 1_000_000,
            "expires_at": None if self.expires_at == _NEVER else self.expires_at / 1_000_000,
            "scope": self.scope,
            "edited": _read(self.edited),
            "comment": self.comment,
            "answered_by": self.answered_by,
            "answered_at": None if self.answered_at is None else self.answered_at / 1_000_000,
        }


def _read(text: str | None) -> JSON:
    try:
        return None if text is None else cast("JSON", loads(text))
    except ValueError:
        return text


def take_answer(connection: sqlite3.Connection, request: NewRequest) -> FoundAnswer | int:
    """The answer that holds for a call, which is used up if it was for one call; else the number of its request."""
    now = time_ns() // 1000
    connection.execute(sql("expire_approvals"), (now,))
    row = connection.execute(sql("find_answer"), (request.fingerprint, request.conversation)).fetchone()
    if row is not None:
        id, state, scope, edited, comment = row
        if scope == ONCE:
            connection.execute(sql("use_answer"), (id,))
        return FoundAnswer(id, state == "allowed", edited, comment)
    found = connection.execute(sql("find_request"), (request.fingerprint, request.conversation)).fetchone()
    if found is not None:
        return int(found[0])
    values = (
        request.fingerprint,
        request.conversation,
        request.tool,
        request.source,
        request.definition,
        request.arguments,
        request.withheld,
        request.reason,
        request.consumer,
        now,
        now + int(request.expires * 1_000_000),
    )
    id = connection.execute(sql("add_request"), values).lastrowid
    assert id is not None
    return id


def answer_request(
    connection: sqlite3.Connection,
    id: int,
    *,
    is_allowed: bool,
    scope: str,
    edited: str | None,
    comment: str | None,
    by: str,
    expires: float,
) -> str | None:
    """Answer a request. Tells why that cannot be done, or None if it was."""
    now = time_ns() // 1000
    connection.execute(sql("expire_approvals"), (now,))
    row = find_approval(connection, id)
    if scope == "conversation" and row is not None and not row.conversation:
        return "was not asked in a conversation, so it can be answered once or always"
    until = now + int(expires * 1_000_000) if scope == ONCE else _NEVER
    state = "allowed" if is_allowed else "denied"
    changed = connection.execute(sql("answer_request"), (state, scope, edited, comment, by, now, until, id)).rowcount
    if changed:
        return None
    if row is None:
        return "does not exist"
    words = {"used": "was answered and used", "expired": "has expired", "withdrawn": "is no longer wanted"}
    who = f" by {row.answered_by.removeprefix('person:')}" if row.answered_by else ""
    return words.get(row.state) or f"is {row.state} already{who}"


def withdraw_request(connection: sqlite3.Connection, id: int) -> None:
    """Nobody waits for the answer any more."""
    connection.execute(sql("withdraw_request"), (id,))


def revoke_answer(connection: sqlite3.Connection, id: int) -> bool:
    """Take an answer back that can still be used."""
    return bool(connection.execute(sql("revoke_answer"), (id,)).rowcount)


def find_approval(connection: sqlite3.Connection, id: int) -> StoredApproval | None:
    row = connection.execute(sql("approval"), (id,)).fetchone()
    return None if row is None else StoredApproval(*row)


def open_approvals(connection: sqlite3.Connection) -> list[StoredApproval]:
    """Requests that can be answered and answers that can be used, the oldest first."""
    rows = connection.execute(sql("open_approvals"), (time_ns() // 1000,)).fetchall()
    return [StoredApproval(*row) for row in rows]


def in_memory() -> sqlite3.Connection:
    """A place for approvals that lasts as long as the process, for programs without a journal."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    for script in migrations():
        connection.executescript(script)
    return connection
