"""`toolrun effects`: lists the calls in doubt, and settles them."""

from __future__ import annotations

import json

import click

from toolrun.cli.argument_pairs import read_pairs
from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, inform
from toolrun.cli.recorded_call import find_call, past_calls, time_of
from toolrun.errors import CallError, UsageError
from toolrun.journal.call_record import show_id
from toolrun.journal.history import PastCall
from toolrun.journal.past_call import arguments_of, doubt_of
from toolrun.journal.recorder import CallRecorder
from toolrun.journal.settlement import person
from toolrun.journal.stored_answer import write_answer
from toolrun.journal.verification import Finding, Verdict, can_verify
from toolrun.json import JSON
from toolrun.result import ToolResult, normalise, render
from toolrun.runtime import Runtime, open_journal, read_config
from toolrun.text import cut

_VERIFIED = {
    Verdict.DONE: "is settled: it happened",
    Verdict.NOT_DONE: "is settled: it did not happen",
    Verdict.TOO_EARLY: "has not acted so far, but it may still be running, so it stays in doubt. Ask again later",
    Verdict.UNKNOWN: "stays in doubt: its 'verify' cannot say whether it happened",
}


@click.group(name="effects", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """List the calls that may have acted and of which nobody knows whether they did.

    'toolrun effects settle CALL --done' or '--not-done' puts an end to a doubt, when you have found out; '--verify'
    asks the tool to find out.
    """
    if context.invoked_subcommand is not None:
        return OK
    options = context.ensure_object(Options)
    output = claim_stdout()
    with past_calls(options) as history:
        doubts = [(call, history.may_act(call)) for call in history.in_doubt()]
    if as_json:
        output.json([{**call.to_dict(), "may_act": may_act, "known": doubt_of(call)} for call, may_act in doubts])
    elif doubts:
        columns = [
            Column("CALL", "dim"),
            Column("TIME"),
            Column("TOOL", "bold cyan"),
            Column("WHAT IS KNOWN", wraps=True),
        ]
        rows = [_row(call, may_act) for call, may_act in doubts]
        output.table([*columns, Column("ARGUMENTS", wraps=True)], rows)
        inform(
            f"Find out whether they happened, then: {options.command_line('effects', 'settle', 'CALL', '--done')}, "
            "or --not-done. "
            "If the tool has a 'verify', --verify asks it."
        )
    else:
        complain("no call is in doubt")
    return OK


@command.command(name="settle")
@click.argument("call")
@click.option("--done", is_flag=True, help="It happened.")
@click.option("--not-done", is_flag=True, help="It did not happen: the same key may run again.")
@click.option("--verify", is_flag=True, help="Ask the tool's 'verify' what happened.")
@click.option("--result", metavar="JSON", help="With --done: what the call returned, for callers that repeat its key.")
@click.option("--force", is_flag=True, help="Believe --not-done although the call may still be running.")
@click.option("--set", "given", metavar="NAME=VALUE", multiple=True, help="With --verify: an argument that is hidden.")
@click.option("--json", "as_json", is_flag=True, help="Print the call afterwards, as a JSON object.")
@shared_options()
@click.pass_obj
def settle_command(
    options: Options,
    call: str,
    done: bool,
    not_done: bool,
    verify: bool,
    result: str | None,
    force: bool,
    given: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say what became of CALL, which is in doubt.

    Exit code: 0 the doubt is settled, 1 it is not, 2 there is no such call.
    """
    output = claim_stdout()
    code = _settle(options, call, done, not_done, verify, result, force, given)
    if as_json:
        with past_calls(options) as history:
            found = find_call(history, call, options)
            output.json({**found.to_dict(), "known": doubt_of(found)})
    return code


def _settle(
    options: Options,
    call: str,
    done: bool,
    not_done: bool,
    verify: bool,
    result: str | None,
    force: bool,
    given: tuple[str, ...],
) -> int:
    if done + not_done + verify != 1:
        raise UsageError("choose exactly one of --done, --not-done and --verify")
    if result is not None and not done:
        raise UsageError("--result says what the call returned, so it needs --done")
    if given and not verify:
        raise UsageError("--set is for --verify")
    value = None if result is None else _parse(result)
    with past_calls(options) as history:
        found = find_call(history, call, options)
        may_act, key = history.may_act(found), history.idempotency_key(found)
        if history.is_running(found):
            complain(f"call {call} is still running")
            return FAILED
    if verify:
        arguments = arguments_of(found, read_pairs(given))
        return run_with_tools(options, lambda runtime: _verify(runtime, found, key, arguments), lazy=True)
    if not_done and may_act and not force and found.state in ("in_doubt", "started") and found.settled_as is None:
        complain(
            f"call {call} may still be running, so it may act yet. Wait until it has ended, or use --force if you "
            "know better."
        )
        return FAILED
    text = answer = None
    if result is not None:
        text = json.dumps(value)
        answer = write_answer(ToolResult(found.tool, normalise(value))) if found.has_key else None
    journal = open_journal(read_config(options.config), "effects")
    try:
        problem = journal.settle(found.id, "done" if done else "not_done", person(), text, answer).result()
    finally:
        journal.close()
    if problem is not None:
        complain(f"call {call} {problem}")
        return FAILED
    inform(f"{call} ({found.tool}) is settled: it {'happened' if done else 'did not happen'}.")
    return OK


async def _verify(runtime: Runtime, found: PastCall, key: str, arguments: dict[str, JSON]) -> int:
    recorder = runtime.executor.recorder
    if not isinstance(recorder, CallRecorder):
        raise UsageError("the journal of the project is off ([journal] enabled), so nothing can be settled")
    shown = found.shown_id
    if found.state not in ("in_doubt", "started") or found.settled_as is not None:
        how = (
            f"was settled before, as {found.settled_as}"
            if found.settled_as
            else f"is not in doubt: it is {found.state}"
        )
        complain(f"call {shown} {how.replace('_', ' ')}")
        return FAILED
    try:
        await runtime.ready(found.tool)
        prepared = await runtime.executor.find(found.tool)
    except CallError as error:
        runtime.log_problems()
        complain(f"call {shown} cannot be verified: {error}")
        return FAILED
    if not can_verify(prepared):
        complain(
            f"call {shown} cannot be verified: '{found.tool}' has no 'verify'. Declare one, or find out yourself and "
            "use --done or --not-done."
        )
        return FAILED
    verification, attempt = recorder.verification, found.as_attempt
    finding = await verification.settle(runtime.executor, prepared, attempt, key, arguments, prepared.timeout)
    return _report(found, finding)


def _report(found: PastCall, finding: Finding) -> int:
    shown = found.shown_id
    if finding.problem is not None:
        complain(f"call {shown} {finding.problem}")
        return FAILED
    message = f"{shown} ({found.tool}) {_VERIFIED[finding.verdict]}"
    if finding.verdict in (Verdict.TOO_EARLY, Verdict.UNKNOWN):
        complain(f"{message}.")
        return FAILED
    result = "" if finding.result is None else f", with the result {cut(render(finding.result), 80)}"
    inform(f"{message}{result}.")
    return OK


def _parse(text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--result needs JSON, and {text!r:.80} is not JSON ({error}); text is written '\"…\"'"
        ) from None
    return value


def _row(call: PastCall, may_act: bool) -> tuple[str, ...]:
    known = f"{doubt_of(call)}, and it may still act" if may_act else doubt_of(call)
    if call.parent is not None:
        known = f"{known} (part of {show_id(call.parent)})"
    return (call.shown_id, time_of(call.at), call.tool, known, cut(call.arguments or "", 80))
