"""`toolrun show`: shows one recorded call in full."""

from __future__ import annotations

from dataclasses import replace

import click

from toolrun.cli.exit import OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import claim_stdout
from toolrun.cli.recorded_call import (
    duration_of,
    find_call,
    how_answered,
    outcome_of,
    past_calls,
    pretty_lines,
    settle_command,
    time_of,
)
from toolrun.cli.sandbox_gaps import gaps_of_place
from toolrun.journal.approval_row import StoredApproval
from toolrun.journal.call_record import show_id
from toolrun.journal.history import History, PastCall
from toolrun.journal.settlement import how_settled
from toolrun.json import JSON
from toolrun.tools.call_log import LogLine


@click.command(name="show")
@click.argument("call")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@shared_options()
@click.pass_obj
def command(options: Options, call: str, as_json: bool) -> int:
    """Show everything that is known of CALL, which is an id from 'toolrun log'."""
    output = claim_stdout()
    with past_calls(options) as history:
        found = find_call(history, call, options)
        children = history.calls(parent=found.id, limit=100)[::-1]
        approval = None if found.approval is None else history.approval(found.approval)
        if as_json:
            more: dict[str, JSON] = {
                "idempotency_key": _key(history, found),
                "children": [it.shown_id for it in children],
                "gaps": list(gaps_of_place(found.worker)),
                "approval": None if approval is None else approval.to_dict(),
                "progress": [{"after_us": it.after_us, "text": it.text} for it in history.reports(found.id)],
                "log": [it._asdict() for it in history.log_lines(found.id)],
            }
            output.json(found.to_dict() | more)
        else:
            body = _body(found, None if approval is None else approval.edited, options)
            log = _log(history.log_lines(found.id))
            timeline = _timeline(found, children, history.reports(found.id), approval)
            output.text("\n".join([*_head(history, found), *timeline, *log, *body]))
    return OK


def _head(history: History, call: PastCall) -> list[str]:
    lines = [f"{call.tool}  {outcome_of(call)}"]
    about = {
        "call": call.shown_id,
        "at": time_of(call.at),
        "source": call.source,
        "consumer": call.consumer,
        "effects": call.effects or "not declared",
        "side effects": call.side_effects,
        "sent as": _key(history, call),
        "attempt": str(call.attempt) if call.attempt > 1 else None,
        "worker": call.worker,
        "caller's id": call.given_id,
        "conversation": call.conversation,
        "part of": None if call.parent is None else show_id(call.parent),
    }
    more = [("gap", gap) for gap in gaps_of_place(call.worker)]
    return [*lines, *(f"  {name + ':':14}{value}" for name, value in (*about.items(), *more) if value)]


def _key(history: History, call: PastCall) -> str | None:
    """What the destination knows the call by, if it may know it."""
    is_harmless = call.effects in ("none", "idempotent") and not call.has_key
    return None if is_harmless or call.state == "refused" else history.idempotency_key(call)


def _timeline(
    call: PastCall, children: list[PastCall], reports: list[LogLine], approval: StoredApproval | None
) -> list[str]:
    lines = ["", "Timeline"]
    if approval is not None and approval.answered_at is not None:
        lines.append(f"  {time_of(approval.answered_at)}  {how_answered(approval)} (request {approval.id})")
    moment = call.at
    lines.append(f"  {time_of(moment)}  accepted")
    if call.queued_us:
        lines.append(f"  +{duration_of(call.queued_us):>9}  the tool started")
    between = [(it.at - call.at, f"called {it.tool} ({it.shown_id}): {outcome_of(it)}") for it in children]
    between += [(it.after_us, it.text) for it in reports]
    lines += [f"  +{duration_of(after_us):>9}  {words}" for after_us, words in sorted(between)]
    if call.run_us is not None:
        unsettled = replace(call, settled_as=None)  # that has a line of its own
        lines.append(f"  +{duration_of((call.queued_us or 0) + call.run_us):>9}  {outcome_of(unsettled)}")
    if call.settled_at is not None and call.settled_as is not None:
        how = f"{how_settled(call.settled_as, call.settled_by)}"
        lines.append(f"  {time_of(call.settled_at)}  {how}")
    return lines


def _log(lines: list[LogLine]) -> list[str]:
    """What the tool logged."""
    shown = [f"  +{duration_of(it.after_us):>9}  {it.level:8}{it.text}".replace("\n", "\n" + " " * 22) for it in lines]
    return ["", "Log", *shown] if shown else []


def _body(call: PastCall, edited: str | None, options: Options) -> list[str]:
    lines: list[str] = []
    parts = {
        "Arguments as sent": call.original,
        "Arguments as changed by whoever approved them": edited,
        "Arguments": call.arguments,
        "Repairs": call.repairs,
        "Ignored arguments": call.dropped,
        "Error": call.error,
        "Result": call.result,
    }
    for title, text in parts.items():
        if text is not None:
            lines += ["", title, *(f"  {line}" for line in pretty_lines(text))]
    if call.has_key and not call.has_answer and "done" in (call.state, call.settled_as):
        lines += [
            "",
            "The answer is not kept: toolrun tells a caller who repeats the key that the call is done.",
        ]
    if call.state == "in_doubt" and call.settled_as is None:
        lines += ["", f"Find out whether it happened, then run: {settle_command(call.shown_id, options)}"]
    if call.withheld is not None:
        reason = "Secrets in the arguments are hidden" if call.withheld == "hidden" else "The arguments are cut"
        lines += ["", f"{reason}, so they cannot be run again as they stand here."]
    return lines
