"""Reads a journal: the last calls, one call, the calls in doubt, statistics. Also while others write."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import time_ns
from typing import Final

from toolrun.journal.approval_row import StoredApproval, find_approval, open_approvals
from toolrun.journal.attempt import Attempt, RunsIn, is_over
from toolrun.journal.call_page import (
    CallFilter,
    CallSummary,
    TimeSpan,
    ToolGlance,
    count_of_calls,
    glance_at_tools,
    outcomes_over_time,
    page_of_calls,
)
from toolrun.journal.call_record import CallState, destination_key, show_id
from toolrun.journal.database import beside, explained, open_reader
from toolrun.journal.kept_conversation import KeptConversation, kept_conversation
from toolrun.journal.liveness import LockFile, is_reaped
from toolrun.journal.statements import sql
from toolrun.journal.tool_statistics import ToolStatistics, statistics_by_tool
from toolrun.json import JSON, JSONDecodeError, loads
from toolrun.text import close_names, shown_name
from toolrun.tools.call_log import PROGRESS, LogLine
from toolrun.tools.effects import HARMLESS

_KNOWN: Final = 1000
"""Conversations among which a misspelt one is looked for."""

_REASONS: Final[Mapping[str, str]] = {
    "database or disk is full": "the disk was full",
    "disk I/O error": "the disk could not be written",
    "the file with these calls was deleted or moved": "the journal with these calls was deleted or moved",
}
"""What SQLite and the writer say, for people."""
_EVER: Final = 1 << 62
_ALL: Final = -1
"""No limit, as SQLite says it."""

_WHERE: Final[Mapping[str, str]] = {
    "tool": "call.tool IN (SELECT id FROM tool WHERE name = :tool)",
    "state": "call.state = :state",
    "error_kind": "call.state <> 'done' AND call.error_kind = :error_kind",
    "not_done": "call.state <> 'done' AND call.state <> 'started'",
    "since": "call.at >= :since",
    "until": "call.at < :until",
    "conversation": "call.conversation = (SELECT id FROM conversation WHERE name = :conversation)",
    "id": "call.id = :id",
    "parent": "call.parent = :parent",
    "unsettled": "call.state = 'in_doubt' AND call.settled_as IS NULL",
    "started": "call.id IN (SELECT id FROM call WHERE state = 'started')",
}
"""One condition for each question, with literals, so that SQLite finds the index that was made for it."""
_SEEN: Final = ("state", "error_kind", "not_done")
"""What is not in the file of a call whose process has died, until somebody writes it down."""
_HOST_LOST: Final = "The process that ran the call ended before the call did"
_LAST_MOMENT: Final = 1.0
"""Seconds that what a dead program started may take to end: its watchdog is about to end it."""


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call as it was recorded."""

    id: int
    process: int
    tool: str
    source: str
    definition: str
    place: str
    """Where its body runs."""
    settle_us: int
    """How long a server may act on it after it was given up."""
    at: int
    state: str
    effects: str | None
    parent: int | None
    conversation: str | None
    """Its id, as `--conversation` takes it."""
    given_id: str | None
    consumer: str
    queued_us: int | None
    run_us: int | None
    attempt: int
    worker: str | None
    error_kind: str | None
    side_effects: str | None
    error: str | None
    arguments: str | None
    withheld: str | None
    original: str | None
    repairs: str | None
    dropped: str | None
    result: str | None
    settled_as: str | None
    settled_by: str | None
    settled_at: int | None
    ended_at: int | None
    """Of a call in doubt: since when it cannot act any more, if that is known."""
    has_key: bool
    has_answer: bool
    """Whether the answer is kept for whoever repeats the key."""
    key: str | None
    """What the key became, as the destination of the call knows it."""
    approval: int | None
    """The answer by which it was made or refused, if somebody was asked."""

    @property
    def shown_id(self) -> str:
        return show_id(self.id)

    @property
    def as_attempt(self) -> Attempt:
        given_up_at = self.at + (self.queued_us or 0) + (self.run_us or 0)
        place = RunsIn(self.place)
        return Attempt(self.id, self.process, given_up_at, self.ended_at, place=place, settle_us=self.settle_us)

    def to_dict(self) -> dict[str, JSON]:
        """For programs: the same names, with JSON as JSON."""
        found: dict[str, JSON] = {it.name: getattr(self, it.name) for it in fields(self)}
        for name in ("arguments", "original", "repairs", "dropped", "result"):
            found[name] = _parsed(getattr(self, name))
        found |= {"id": self.shown_id, "parent": None if self.parent is None else show_id(self.parent)}
        found |= {"call_id": self.given_id or self.shown_id}  # as in a result
        found |= {"has_key": bool(self.has_key), "has_answer": bool(self.has_answer)}
        return {**found, "replayed": False}  # an answer that is given again is no call of its own


@dataclass(frozen=True, slots=True)
class Gap:
    """Calls of one process that are not on record, and why."""

    process: int
    started_at: int
    ended_at: int
    calls: int
    reason: str

    @property
    def why(self) -> str:
        """The reason in words."""
        return _REASONS.get(self.reason, self.reason)

    def to_dict(self) -> dict[str, JSON]:
        """For programs."""
        return {**asdict(self), "reason": self.why}


@dataclass(frozen=True, slots=True)
class PastConversation:
    """A conversation that the journal keeps."""

    name: str
    model: str


class History:
    """A journal that is being read."""

    def __init__(self, connection: sqlite3.Connection, locks: LockFile) -> None:
        self._connection = connection
        self._locks = locks

    def calls(self, *, limit: int = 50, **conditions: str | int | bool | None) -> list[PastCall]:
        """The newest calls that meet all conditions, the newest first. The names are those of `_WHERE`."""
        given = {name: value for name, value in conditions.items() if value is not None and value is not False}
        seen: dict[str, object] = {name: given[name] for name in _SEEN if name in given}
        calls = self._select(given, _ALL if seen.get("state") == CallState.STARTED else limit)
        if not seen:
            return calls
        rest = {name: value for name, value in given.items() if name not in seen} | {"started": True}
        found = {call.id: call for call in [*calls, *self._select(rest, _ALL)] if _meets(call, seen)}
        newest_first = sorted(found.values(), key=lambda call: (call.at, call.id), reverse=True)
        return newest_first if limit == _ALL else newest_first[:limit]

    def _select(self, given: Mapping[str, str | int | bool], limit: int) -> list[PastCall]:
        where = " AND ".join(_WHERE[name] for name in given) or "1"
        rows = self._connection.execute(sql("select_calls").format(where=where), {**given, "limit": limit})
        return [self._as_known(PastCall(*row)) for row in rows]

    def _as_known(self, call: PastCall) -> PastCall:
        """A call as the next process that writes will note it down: it does not run any more if its process is dead."""
        if call.state != CallState.STARTED or self._locks.is_alive(call.process):
            return call
        state, effect = (CallState.FAILED, "failed") if call.effects in HARMLESS else (CallState.IN_DOUBT, "unknown")
        return replace(call, state=state.value, error_kind="host_lost", error=_HOST_LOST, side_effects=effect)

    def page(self, wanted: CallFilter, before: str = "", limit: int = 50) -> tuple[list[CallSummary], str | None]:
        """The newest calls that are wanted, and where the next page starts. Raises ValueError for a wrong `before`."""
        return page_of_calls(self._connection, wanted, before, limit)

    def count(self, wanted: CallFilter) -> int | None:
        """How many calls are wanted; None if that would have to be searched for."""
        return count_of_calls(self._connection, wanted)

    def glance(self) -> dict[str, ToolGlance]:
        """What is known of the calls of each tool without looking at each."""
        return glance_at_tools(self._connection)

    def over_time(self, since: int, until: int, step: int, tool: str = "") -> list[TimeSpan]:
        """What became of the calls, in spans of `step` microseconds."""
        return outcomes_over_time(self._connection, since, until, step, tool)

    def is_alive(self, process: int) -> bool:
        """Whether the process with that row is there."""
        return self._locks.is_alive(process)

    def conversations(self, limit: int = _ALL) -> list[KeptConversation]:
        """Those that can be continued, the one that was used last first."""
        return [kept_conversation(row) for row in self._connection.execute(sql("conversations"), (limit,))]

    def count_conversations(self) -> int:
        """How many can be continued."""
        count: int = self._connection.execute(sql("count_conversations")).fetchone()[0]
        return count

    def messages(self, conversation: str) -> list[tuple[str, str, int]]:
        """Role, body and time of each message."""
        return self._connection.execute(sql("messages_of_name"), (conversation,)).fetchall()

    def log_lines(self, id: int) -> list[LogLine]:
        """What the tool logged while the call ran."""
        return [it for it in self._noted(id) if it.level != PROGRESS]

    def reports(self, id: int) -> list[LogLine]:
        """How far the tool said that it had got."""
        return [it for it in self._noted(id) if it.level == PROGRESS]

    def _noted(self, id: int) -> list[LogLine]:
        with suppress(sqlite3.OperationalError):  # an older file, which nobody can bring up to date
            return [LogLine(*row) for row in self._connection.execute(sql("log_lines"), (id,))]
        return []

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that is read inside is as it was at one moment."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def call(self, id: int) -> PastCall | None:
        return next(iter(self.calls(id=id, limit=1)), None)

    def approvals(self) -> list[StoredApproval]:
        """Requests that can be answered and answers that can be used, the oldest first."""
        return open_approvals(self._connection)

    def approval(self, id: int) -> StoredApproval | None:
        """One request with its answer, however old."""
        return find_approval(self._connection, id)

    def gaps(self, since: int = 0, until: int = _EVER) -> list[Gap]:
        """Where calls are missing, the oldest first."""
        return [Gap(*row) for row in self._connection.execute(sql("gaps"), (since, until))]

    def idempotency_key(self, call: PastCall) -> str:
        """What the destination of the call knows it by."""
        row = self._connection.execute(sql("key_of"), (call.id,)).fetchone()
        return destination_key(row[0], call.id, call.at, row[1] or 0, row[2] or "")

    def in_doubt(self) -> list[PastCall]:
        """The calls that may have acted and that nobody has settled, those of dead processes included."""
        calls = [*self.calls(unsettled=True, limit=_ALL), *self.calls(started=True, limit=_ALL)]
        found = [call for call in calls if call.state == CallState.IN_DOUBT]
        return sorted(found, key=lambda call: (call.at, call.id))

    def doubts(self) -> list[int]:
        """The ids of calls that are in doubt, without those of processes that have just died."""
        return [id for (id,) in self._connection.execute(sql("doubts"))]

    def is_running(self, call: PastCall) -> bool:
        """Whether the process that runs the call is still there."""
        return call.state == CallState.STARTED and self._locks.is_alive(call.process)

    def may_act(self, call: PastCall) -> bool:
        """Whether a call in doubt may still be running somewhere, as far as the journal knows."""
        attempt = call.as_attempt
        is_alive = self._locks.is_alive(call.process)
        if not is_alive and attempt.place.dies_with_host:
            host = self._connection.execute(sql("host_of"), (call.process,)).fetchone()
            is_alive = host is not None and not is_reaped(host[0], host[1], _LAST_MOMENT)
        return not is_over(attempt, is_alive=is_alive, now=time_ns() // 1000)

    def conversation(self, name: str) -> PastConversation | None:
        row = self._connection.execute(sql("conversation_model"), (name,)).fetchone()
        return None if row is None else PastConversation(name, row[0])

    def last_conversation(self, consumer: str) -> PastConversation | None:
        """The conversation of a consumer that was used last and that no living process has."""
        for name, model, process in self._connection.execute(sql("last_conversations"), (consumer,)):
            if process is None or not self._locks.is_alive(process):
                return PastConversation(name, model)
        return None

    def busy_conversation(self, consumer: str) -> str | None:
        """Which conversation of a consumer was used last, and who has it, if none is free."""
        for name, _, process in self._connection.execute(sql("last_conversations"), (consumer,)):
            row = self._connection.execute(sql("process_of"), (process,)).fetchone()
            return f"{name} is in use by {'another process' if row is None else f'process {row[1]}'}"
        return None

    def unknown_conversation(self, name: str) -> str:
        """What to tell somebody who names a conversation that is not there."""
        return unknown_conversation(self._connection, name)

    def statistics(self, since: int = 0, tool: str = "") -> list[ToolStatistics]:
        """By tool, the most used first."""
        conditions = {"since": since or None, "tool": tool or None}
        lost = Counter(
            call.tool for call in self.calls(started=True, limit=_ALL, **conditions) if call.state != CallState.STARTED
        )
        return statistics_by_tool(self._connection, since, tool, lost)


def _meets(call: PastCall, seen: Mapping[str, object]) -> bool:
    """Whether a call meets the conditions about what has become of it. One that runs has not failed."""
    if "not_done" in seen and call.state in (CallState.DONE, CallState.STARTED):
        return False
    return all(getattr(call, name) == value for name, value in seen.items() if name != "not_done")


def unknown_conversation(connection: sqlite3.Connection, name: str) -> str:
    """What to tell somebody who names a conversation that is not there."""
    known = [str(row[0]) for row in connection.execute(sql("conversation_names"), (_KNOWN,))]
    close = close_names(name, known, 1)
    if close:
        hint = f"did you mean '{close[0]}'?"
    else:
        hint = f"the newest is '{known[0]}'." if known else "none is stored yet."
    return f"There is no conversation '{shown_name(name)}' in the journal; {hint}"


@contextmanager
def open_history(path: Path) -> Iterator[History]:
    """Raises JournalError if there is nothing to read, also inside, when it turns out that the file is damaged."""
    connection = open_reader(path)
    try:
        with explained(path, "read"):
            locks = LockFile.open_to_look(beside(path, "-lock"))
        try:
            with explained(path, "read", errors=(sqlite3.Error,)):  # other errors are those of whoever reads
                locks.learn(connection)
                yield History(connection, locks)
        finally:
            locks.close()
    finally:
        connection.close()


def _parsed(text: str | None) -> JSON:
    if text is None:
        return None
    try:
        value: JSON = loads(text)
    except JSONDecodeError:  # it was cut
        return text
    return value
