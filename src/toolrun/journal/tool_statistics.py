"""Statistics of the calls of each tool. Reads only.

SQLite counts, without the interpreter's lock, and hands over the durations of a group of calls as one text: a row for
each call would hold up the event loop of a server. The percentiles are exact: every duration is in them, sorted here,
as window functions take twice as long.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolrun.journal.call_page import percentile
from toolrun.journal.call_record import CallState
from toolrun.journal.statements import sql
from toolrun.json import JSONDecodeError, loads


@dataclass(frozen=True, slots=True)
class ToolStatistics:
    """What the calls of one tool were like."""

    tool: str
    calls: int
    failed: int
    p50_us: int
    p95_us: int
    p99_us: int
    repairs: Mapping[str, int]
    """How often each reason for a repair occurred."""
    slowest: tuple[int, int] = (0, 0)
    """Microseconds, and the call."""
    outcomes: Mapping[str, int] = field(default_factory=dict)


def statistics_by_tool(
    connection: sqlite3.Connection, since: int, tool: str, lost: Mapping[str, int]
) -> list[ToolStatistics]:
    """The most used first. An empty `tool` means every tool. `lost`: how many calls of each, of those that have begun
    and not ended, ran in processes that have died."""
    durations: defaultdict[str, list[int]] = defaultdict(list)
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    slowest: dict[str, tuple[int, int]] = {}
    failed: Counter[str] = Counter()
    rows = connection.execute(sql("calls_by_outcome"), (since, tool))
    for name, state, error_kind, settled_as, count, times, longest, id in rows:
        outcomes[name]["ok" if state == CallState.DONE else error_kind or state] += count
        if state not in (CallState.DONE, CallState.STARTED) and settled_as != "done":
            failed[name] += count
        if times is not None and state != CallState.REFUSED:
            durations[name] += map(int, times.split(","))
            slowest[name] = max(slowest.get(name, (0, 0)), (longest, id))
    for name, count in lost.items():
        outcomes[name] += Counter({"host_lost": count})
        outcomes[name] -= Counter({str(CallState.STARTED): count})
        failed[name] += count
    repairs: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, repaired in connection.execute(sql("repairs_since"), (since, tool)):
        repairs[name].update(_reasons(repaired))
    found = []
    for name, outcome in outcomes.items():
        times, total = sorted(durations[name]), outcome.total()
        p50, p95, p99 = (percentile(times, part) for part in (0.50, 0.95, 0.99))
        worst = slowest.get(name, (0, 0))
        found.append(ToolStatistics(name, total, failed[name], p50, p95, p99, repairs[name], worst, outcome))
    return sorted(found, key=lambda it: (-it.calls, it.tool))


def _reasons(repairs: str) -> list[str]:
    try:
        value = loads(repairs)
    except JSONDecodeError:
        return []
    return [str(it.get("reason")) for it in value if isinstance(it, dict)] if isinstance(value, list) else []
