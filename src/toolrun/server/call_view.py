"""A recorded call as the API shows it, in a list and in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import TypedDict  # pydantic, which needs it, brings it

from toolrun.journal.approval_row import StoredApproval
from toolrun.journal.call_page import CallSummary, outcome_of
from toolrun.journal.call_record import CallState, show_id
from toolrun.journal.history import History, PastCall
from toolrun.journal.settlement import how_settled
from toolrun.tools.call_log import LogLine


class CallRow(TypedDict):
    """A call in a list. Of `arguments`, `result` and `error` the first 200 characters of their text."""

    id: str
    tool: str
    source: str
    at: int
    outcome: str
    """`ok`, `failed`, `timeout`, `cancelled`, `refused`, `in_doubt` or `running`."""
    error_kind: str | None
    side_effects: str | None
    effects: str | None
    consumer: str
    conversation: str | None
    parent: str | None
    queued_us: int | None
    run_us: int | None
    attempt: int
    worker: str | None
    repaired: bool
    dropped: bool
    settled_as: str | None
    arguments: str | None
    result: str | None
    error: str | None


class TimelineEntry(TypedDict):
    """Something that happened to a call."""

    at: int
    event: str
    """`approved`, `accepted`, `started`, `progress`, `called`, `ended` or `settled`."""
    words: str
    call: str | None
    """The id of the call that its tool made."""


class SettlementView(TypedDict):
    """What somebody knows by now of a call that was in doubt."""

    settled_as: str
    by: str | None
    at: int | None


class LogLineView(TypedDict):
    """A line that the tool logged."""

    after_us: int
    """Microseconds since the call came in."""
    level: str
    text: str


class CallDetail(TypedDict):
    """All that is known of a call."""

    id: str
    tool: str
    source: str
    at: int
    outcome: str
    state: str
    error_kind: str | None
    error: str | None
    side_effects: str | None
    effects: str | None
    consumer: str
    conversation: str | None
    parent: str | None
    caller_id: str | None
    """The id that the caller gave the call."""
    queued_us: int | None
    run_us: int | None
    attempt: int
    worker: str | None
    sent: Any
    """The arguments as they came."""
    arguments: Any
    """The arguments that the tool got."""
    withheld: str | None
    """`hidden` or `cut`: why the arguments are not all on record."""
    repairs: Any
    dropped: Any
    result: Any
    has_key: bool
    idempotency_key: str | None
    """What the destination of the call may know it by."""
    settlement: SettlementView | None
    approval: Any
    """The request for approval and its answer, if somebody was asked."""
    children: list[CallRow]
    timeline: list[TimelineEntry]
    log: list[LogLineView]
    """The first hundred lines that the tool logged, if the call has ended. What it reported is in the timeline."""


def view_row(call: CallSummary, is_alive: Callable[[int], bool]) -> CallRow:
    outcome = outcome_of(call.state, call.error_kind, call.settled_as)
    if outcome == "running" and not is_alive(call.process):
        outcome = _lost(call.effects)
    return {
        "id": show_id(call.id),
        "tool": call.tool,
        "source": call.source,
        "at": call.at,
        "outcome": outcome,
        "error_kind": call.error_kind,
        "side_effects": call.side_effects,
        "effects": call.effects,
        "consumer": call.consumer,
        "conversation": call.conversation,
        "parent": None if call.parent is None else show_id(call.parent),
        "queued_us": call.queued_us,
        "run_us": call.run_us,
        "attempt": call.attempt,
        "worker": call.worker,
        "repaired": bool(call.is_repaired),
        "dropped": bool(call.has_dropped),
        "settled_as": call.settled_as,
        "arguments": call.arguments,
        "result": call.result,
        "error": call.error,
    }


def _lost(effects: str | None) -> str:
    """The outcome of a call whose process has died."""
    return "failed" if effects in ("none", "idempotent") else "in_doubt"


def summary_of(call: PastCall) -> CallSummary:
    def head(text: str | None) -> str | None:
        return None if text is None else text[:200]

    return CallSummary(
        *(call.id, call.tool, call.source, call.at, call.process, call.state, call.error_kind, call.settled_as),
        *(call.effects, call.side_effects, call.consumer, call.conversation, call.parent, call.queued_us, call.run_us),
        *(call.attempt, call.worker, call.repairs is not None, call.dropped is not None),
        *(head(call.arguments), head(call.result), head(call.error)),
    )


def view_call(history: History, call: PastCall) -> CallDetail:
    """In full, with the calls that its tool made."""
    said = call.to_dict()
    row = view_row(summary_of(call), history.is_alive)
    children = [view_row(summary_of(it), history.is_alive) for it in history.calls(parent=call.id, limit=100)[::-1]]
    approval = None if call.approval is None else history.approval(call.approval)
    is_harmless = call.effects in ("none", "idempotent") and not call.has_key
    key = None if is_harmless or call.state == "refused" else history.idempotency_key(call)
    return {
        "id": call.shown_id,
        "tool": call.tool,
        "source": call.source,
        "at": call.at,
        "outcome": row["outcome"],
        "state": call.state,
        "error_kind": call.error_kind,
        "error": call.error,
        "side_effects": call.side_effects,
        "effects": call.effects,
        "consumer": call.consumer,
        "conversation": call.conversation,
        "parent": row["parent"],
        "caller_id": call.given_id,
        "queued_us": call.queued_us,
        "run_us": call.run_us,
        "attempt": call.attempt,
        "worker": call.worker,
        "sent": said["arguments"] if call.original is None else said["original"],
        "arguments": said["arguments"],
        "withheld": call.withheld,
        "repairs": said["repairs"] or [],
        "dropped": said["dropped"] or [],
        "result": said["result"],
        "has_key": bool(call.has_key),
        "idempotency_key": key,
        "settlement": _settlement(call),
        "approval": None if approval is None else approval.to_dict(),
        "children": children,
        "timeline": _timeline(call, history.reports(call.id), children, approval),
        "log": [{"after_us": it.after_us, "level": it.level, "text": it.text} for it in history.log_lines(call.id)],
    }


def _settlement(call: PastCall) -> SettlementView | None:
    if call.settled_as is None:
        return None
    return {"settled_as": call.settled_as, "by": call.settled_by, "at": call.settled_at}


def _timeline(
    call: PastCall, reports: list[LogLine], children: list[CallRow], approval: StoredApproval | None
) -> list[TimelineEntry]:
    entries: list[TimelineEntry] = []

    def add(at: int, event: str, words: str, child: str | None = None) -> None:
        entries.append({"at": at, "event": event, "words": words, "call": child})

    if approval is not None and approval.answered_at is not None:
        verdict = "denied" if approval.comment is not None else "approved"
        add(approval.answered_at, "approved", f"{verdict} by {approval.answered_by or 'the program'}")
    add(call.at, "accepted", f"accepted from {call.consumer}" if call.consumer else "accepted")
    if call.state != CallState.REFUSED:
        attempt = f"attempt {call.attempt} started" if call.attempt > 1 else "started"
        add(call.at + (call.queued_us or 0), "started", f"{attempt} in {call.worker}" if call.worker else attempt)
    for report in reports:
        add(call.at + report.after_us, "progress", report.text)
    for it in children:
        add(it["at"], "called", f"called {it['tool']}: {it['outcome']}", it["id"])
    if call.run_us is not None:
        before = outcome_of(call.state, call.error_kind, None)
        add(call.at + (call.queued_us or 0) + call.run_us, "ended", before.replace("_", " "))
    if call.settled_as is not None and call.settled_at is not None:
        add(call.settled_at, "settled", how_settled(call.settled_as, call.settled_by))
    return sorted(entries, key=lambda it: it["at"])
