"""Many calls at a glance: pages of a list, counts by tool, outcomes over time. Reads only.

What takes long in a large journal is bounded: a page continues where the one before it ended instead of counting from
the start, and a search looks at so many calls and then says where it stopped.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from toolrun.journal.call_record import CallState
from toolrun.journal.statements import sql

EVER: Final = 1 << 62
_SCAN: Final = 20_000
"""Calls that one page of a search looks at."""
_RECENT: Final = 2_000
"""The last calls, of which it is known how long the calls of a tool take lately."""
_CURSOR: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,19})")
OUTCOMES: Final = ("ok", "failed", "timeout", "cancelled", "refused", "in_doubt", "running")
"""What became of a call, in one word."""

_OUTCOME: Final = {
    "ok": "(call.state = 'done' OR (call.state = 'in_doubt' AND call.settled_as = 'done'))",
    "running": "call.id IN (SELECT id FROM call WHERE state = 'started')",
    "refused": "call.state <> 'done' AND call.state = 'refused'",
    "in_doubt": "call.state = 'in_doubt' AND call.settled_as IS NULL",
    "timeout": "call.state <> 'done' AND call.error_kind = 'timeout' AND {ended}",
    "cancelled": "call.state <> 'done' AND call.error_kind = 'cancelled' AND {ended}",
    "failed": "call.state <> 'done' AND coalesce(call.error_kind, '') NOT IN ('timeout', 'cancelled') AND {ended}",
}
_ENDED: Final = (
    "call.state NOT IN ('done', 'started', 'refused') AND (call.state <> 'in_doubt' OR "
    "(call.settled_as IS NOT NULL AND call.settled_as <> 'done'))"
)


def outcome_of(state: str, error_kind: str | None, settled_as: str | None) -> str:
    """One of `OUTCOMES`."""
    if state == CallState.DONE or settled_as == "done":
        return "ok"
    if state == CallState.STARTED:
        return "running"
    if state == CallState.REFUSED:
        return "refused"
    if state == CallState.IN_DOUBT and settled_as is None:
        return "in_doubt"
    return error_kind if error_kind in ("timeout", "cancelled") else "failed"


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls are wanted. What is empty says nothing."""

    tool: str = ""
    outcome: str = ""
    text: str = ""
    """In the arguments, the result or the error."""
    since: int = 0
    until: int = EVER
    conversation: str = ""
    consumer: str = ""


@dataclass(frozen=True, slots=True)
class CallSummary:
    """One call of a list."""

    id: int
    tool: str
    source: str
    at: int
    process: int
    state: str
    error_kind: str | None
    settled_as: str | None
    effects: str | None
    side_effects: str | None
    consumer: str
    conversation: str | None
    parent: int | None
    queued_us: int | None
    run_us: int | None
    attempt: int
    worker: str | None
    is_repaired: bool
    has_dropped: bool
    arguments: str | None
    """The beginning of the text, as of `result` and `error`."""
    result: str | None
    error: str | None


def page_of_calls(
    connection: sqlite3.Connection, wanted: CallFilter, before: str = "", limit: int = 50
) -> tuple[list[CallSummary], str | None]:
    """The newest calls that are wanted, and where the next page starts. `before` is that of the last page.

    Raises ValueError for one that no page gave.
    """
    where, values = _conditions(wanted, before)
    end: tuple[int, int] | None = None
    if wanted.text or wanted.consumer:
        scanned = " AND ".join(where) or "1"
        row = connection.execute(sql("end_of_scan").format(where=scanned), {**values, "scan": _SCAN}).fetchone()
        end = None if row is None else (row[0], row[1])
        where, values = _searching(wanted, where, values, end)
    condition = " AND ".join(where) or "1"
    rows = connection.execute(sql("page_of_calls").format(where=condition), {**values, "limit": limit + 1}).fetchall()
    calls = [CallSummary(*row) for row in rows[:limit]]
    if len(rows) > limit:
        return calls, f"{calls[-1].at}-{calls[-1].id}"
    return calls, None if end is None else f"{end[0]}-{end[1]}"


def count_of_calls(connection: sqlite3.Connection, wanted: CallFilter) -> int | None:
    """How many calls are wanted; None for a search, which stops before it has seen all of them."""
    if wanted.text or wanted.consumer:
        return None
    where, values = _conditions(wanted, "")
    count: int = connection.execute(
        sql("count_calls_where").format(where=" AND ".join(where) or "1"), values
    ).fetchone()[0]
    return count


def _conditions(wanted: CallFilter, before: str) -> tuple[list[str], dict[str, object]]:
    """Those for which there are indexes."""
    where, values = [], dict[str, object]()
    if wanted.tool:
        where.append("call.tool IN (SELECT id FROM tool WHERE name = :tool)")
        values["tool"] = wanted.tool
    if wanted.outcome:
        where.append(_OUTCOME[wanted.outcome].format(ended=_ENDED))
    if wanted.conversation:
        where.append("call.conversation = (SELECT id FROM conversation WHERE name = :conversation)")
        values["conversation"] = wanted.conversation
    if wanted.since:
        where.append("call.at >= :since")
        values["since"] = wanted.since
    if wanted.until < EVER:
        where.append("call.at < :until")
        values["until"] = wanted.until
    if before:
        found = _CURSOR.fullmatch(before)
        if found is None or int(found[2]) >= 1 << 63:
            raise ValueError(f"{before!r:.50} is not where a page of calls ended")
        where.append("(call.at, call.id) < (:at, :id)")
        values |= {"at": int(found[1]), "id": int(found[2])}
    return where, values


def _searching(
    wanted: CallFilter, where: list[str], values: dict[str, object], end: tuple[int, int] | None
) -> tuple[list[str], dict[str, object]]:
    where, values = list(where), dict(values)
    if end is not None:
        where.append("(call.at, call.id) >= (:end_at, :end_id)")
        values |= {"end_at": end[0], "end_id": end[1]}
    if wanted.consumer:
        where.append("call.consumer = :consumer")
        values["consumer"] = wanted.consumer
    if wanted.text:
        places = ("arguments", "result", "error", "original")
        where.append(f"({' OR '.join(f'call.{it} LIKE :text ESCAPE :escape' for it in places)})")
        escaped = re.sub(r"([\\%_])", r"\\\1", wanted.text)
        values |= {"text": f"%{escaped}%", "escape": "\\"}
    return where, values


@dataclass(frozen=True, slots=True)
class ToolGlance:
    """What is known of a tool's calls without looking at each."""

    calls: int
    errors: int
    p50_us: int | None
    """Of its calls among the last ones of all tools."""


def glance_at_tools(connection: sqlite3.Connection) -> dict[str, ToolGlance]:
    calls = dict(connection.execute(sql("calls_by_tool")).fetchall())
    errors = dict(connection.execute(sql("failures_by_tool")).fetchall())
    durations: defaultdict[str, list[int]] = defaultdict(list)
    for tool, run_us in connection.execute(sql("last_durations"), (_RECENT,)):
        durations[tool].append(run_us)
    medians = {tool: percentile(sorted(times), 0.5) for tool, times in durations.items()}
    return {tool: ToolGlance(count, errors.get(tool, 0), medians.get(tool)) for tool, count in calls.items()}


@dataclass(slots=True)
class TimeSpan:
    """The calls that began in one span of time."""

    outcomes: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    repaired: int = 0
    run_us: list[int] = field(default_factory=list)
    busy_us: int = 0
    """How long calls ran in this span, one beside the other counted twice."""
    worker_us: int = 0
    """How long of that in workers."""

    def busy(self, run_us: int, in_worker: int) -> None:
        self.busy_us += run_us
        self.worker_us += run_us if in_worker else 0


def outcomes_over_time(
    connection: sqlite3.Connection, since: int, until: int, step: int, tool: str = ""
) -> list[TimeSpan]:
    """One slot for each `step` microseconds."""
    slots = [TimeSpan() for _ in range(max(1, -(-(until - since) // step)))]
    rows = connection.execute(sql("outcomes_over_time"), (since, until, step, tool))
    for number, state, error_kind, settled_as, in_worker, count, repaired, times, busy_us, longer in rows:
        slot = slots[number]
        slot.outcomes[outcome_of(state, error_kind, settled_as)] += count
        slot.repaired += repaired
        if times is None or state == CallState.REFUSED:
            continue
        slot.run_us += map(int, times.split(","))
        slot.busy(busy_us or 0, in_worker)
        for begin, run_us in (map(int, it.split()) for it in (longer or "").split(",") if it):
            _spread(slots, number, begin - since, run_us, step, in_worker)
    return slots


def _spread(slots: Sequence[TimeSpan], number: int, begin: int, run_us: int, step: int, in_worker: int) -> None:
    """A call that ran beyond the span in which it began."""
    end = begin + run_us
    while begin < end and number < len(slots):
        until = min(end, (number + 1) * step)
        slots[number].busy(until - begin, in_worker)
        begin, number = until, number + 1


def percentile(times: Sequence[int], part: float) -> int:
    """Of sorted times."""
    return times[min(len(times) - 1, int(len(times) * part))] if times else 0
