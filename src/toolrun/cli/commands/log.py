"""`toolrun log`: lists the recorded calls."""

from __future__ import annotations

import time
from bisect import bisect_left
from itertools import pairwise
from typing import Final, TypeAlias

import click

from toolrun.cli.completers import tool_names
from toolrun.cli.exit import OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, Output, claim_stdout, complain
from toolrun.cli.recorded_call import Moment, duration_of, gap_of, outcome_of, past_calls, time_of
from toolrun.errors import ErrorKind, UsageError
from toolrun.journal.call_record import CallState
from toolrun.journal.history import Gap, History, PastCall
from toolrun.json import JSON
from toolrun.text import cut

_Conditions: TypeAlias = dict[str, str | int | bool | None]
_POLL: Final = 0.25
_LATE: Final = 1_000_000
"""Microseconds after which a call that was made is on record."""
_MANY: Final = 10_000
_WIDTH: Final = 60
_OUTCOMES: Final = tuple(
    dict.fromkeys(("ok", "failed", "host_lost", *(it.value for it in CallState), *(it.value for it in ErrorKind)))
)


@click.command(name="log")
@click.argument("tool", required=False, shell_complete=tool_names)
@click.option(
    "-n", "--number", "limit", metavar="N", type=click.IntRange(1), default=20, help="The number of calls. Default: 20."
)
@click.option("--since", type=Moment(), help="Only calls after this time: 10m, 2h, 14:30, 2026-11-16.")
@click.option("--until", type=Moment(), help="Only calls before this time.")
@click.option(
    "--outcome", type=click.Choice(_OUTCOMES), help="Only calls with this outcome; 'failed' is everything but success."
)
@click.option("--conversation", metavar="ID", help="Only calls of this conversation.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new calls as they end.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
@shared_options()
@click.pass_obj
def command(
    options: Options,
    tool: str | None,
    limit: int,
    since: int | None,
    until: int | None,
    outcome: str | None,
    conversation: str | None,
    follow: bool,
    as_json: bool,
) -> int:
    """List the last calls, the newest last: all of them, or those of TOOL.

    A line that begins with a dash stands for calls that could not be recorded.
    """
    output = claim_stdout()
    conditions: _Conditions = {
        "tool": tool,
        "since": since,
        "until": until,
        "conversation": conversation,
    }
    conditions |= _of_outcome(outcome)
    with past_calls(options) as history:
        if conversation is not None and history.conversation(conversation) is None:
            raise UsageError(history.unknown_conversation(conversation))
        with history.snapshot():
            calls = history.calls(limit=limit, **conditions)[::-1]
            # Where the list begins in the middle, so do the gaps. No filter applies: nobody knows what was missed.
            oldest = calls[0].at if len(calls) == limit else since or 0
            gaps = history.gaps(oldest) if until is None else history.gaps(oldest, until)
            start = _look_back(history, conditions)
            known = {call.id for call in _ended_since(history, conditions, start)} if follow else set()
        if not calls and not follow:
            complain("no call was recorded" + (" that meets these conditions" if any(conditions.values()) else ""))
        _print(history, output, calls, gaps, as_json)
        if follow:
            _follow(history, output, conditions, start, known, as_json)
    return OK


def _of_outcome(outcome: str | None) -> _Conditions:
    match outcome:
        case None:
            return {}
        case "ok":
            return {"state": CallState.DONE}
        case "failed":
            return {"not_done": True}
        case _ if outcome in set(CallState):
            return {"state": outcome}
    return {"error_kind": outcome}


def _follow(
    history: History, output: Output, conditions: _Conditions, start: int, known: set[int], as_json: bool
) -> None:
    """Print each call when it has ended, apart from the known ones, and each gap when it has. Ends by Ctrl-C."""
    told = set(history.gaps())
    while True:
        time.sleep(_POLL)
        next_start = _look_back(history, conditions)  # first, because a call may end between the two looks
        ended = [call for call in _ended_since(history, conditions, start) if call.id not in known]
        gaps = [gap for gap in history.gaps() if gap not in told]
        _print(history, output, ended, gaps, as_json)
        told.update(gaps)
        known.update(call.id for call in ended)
        start = max(start, next_start)


def _look_back(history: History, conditions: _Conditions) -> int:
    """The time of the oldest call that may still end: one that runs ends later than those after it."""
    wanted = {name: conditions[name] for name in ("tool", "conversation")}
    running = [call.at for call in history.calls(limit=_MANY, state=CallState.STARTED, **wanted)]
    return min(running, default=time.time_ns() // 1000) - _LATE


def _ended_since(history: History, conditions: _Conditions, start: int) -> list[PastCall]:
    since = max(start, int(conditions["since"] or 0))
    found = history.calls(limit=_MANY, **{**conditions, "since": since})[::-1]
    return [call for call in found if call.state != CallState.STARTED]


def _print(history: History, output: Output, calls: list[PastCall], gaps: list[Gap], as_json: bool) -> None:
    """Calls in the order in which they came, and a gap where it began."""
    if as_json:
        items: list[tuple[int, dict[str, JSON]]] = [(call.at, _to_dict(history, call)) for call in calls]
        items += [(gap.started_at, {"gap": gap.to_dict()}) for gap in gaps]
        for _, item in sorted(items, key=lambda it: it[0]):
            output.json(item, is_line=True)
        return
    columns = [Column("CALL", "dim"), Column("TIME"), Column("TOOL", "bold cyan"), Column("OUTCOME"), Column("TOOK")]
    columns += [Column("ARGUMENTS", cuts=True), Column("RESULT", cuts=True)]
    lines = {gap: bisect_left(calls, gap.started_at, key=lambda call: call.at) for gap in gaps}
    places = sorted({0, *lines.values(), len(calls)})
    for start, end in pairwise([*places, len(calls)]):
        for gap in (gap for gap, place in lines.items() if place == start):
            output.text(f"— {gap_of(gap)}")
        if start < end:
            output.table(columns, [_row(call) for call in calls[start:end]])


def _to_dict(history: History, call: PastCall) -> dict[str, JSON]:
    approval = None if call.approval is None else history.approval(call.approval)
    return call.to_dict() | {"approval": None if approval is None else approval.to_dict()}


def _row(call: PastCall) -> tuple[str, ...]:
    return (
        call.shown_id,
        time_of(call.at),
        call.tool,
        outcome_of(call),
        duration_of(call.run_us),
        cut(call.arguments or "", _WIDTH),
        cut(" ".join((call.error or call.result or "").splitlines()), _WIDTH),
    )
