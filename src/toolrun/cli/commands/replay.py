"""`toolrun replay`: makes a recorded call again, and compares the answers."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Mapping
from typing import Final

import click

from toolrun.cli.approval_prompt import always_yes, terminal_prompt
from toolrun.cli.argument_pairs import read_pairs
from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain, terminal_safe
from toolrun.cli.recorded_call import duration_of, find_call, outcome_of, past_calls, pretty_lines
from toolrun.cli.status_line import status_line
from toolrun.errors import CallError, UsageError
from toolrun.journal.call_record import CallState, read_id
from toolrun.journal.history import PastCall, open_history
from toolrun.journal.past_call import arguments_of
from toolrun.json import JSON
from toolrun.result import render
from toolrun.runtime import Runtime
from toolrun.text import cut
from toolrun.tools.effects import Effects

_UNKNOWN: Final[Mapping[str | None, str]] = {
    "hidden": ", apart from hidden ones",
    "cut": " as far as they are in the journal",
}


@click.command(name="replay")
@click.argument("call")
@click.option("--set", "given", metavar="NAME=VALUE", multiple=True, help="Another value for an argument.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a tool that may act is called.")
@click.option("--json", "as_json", is_flag=True, help="Print both calls as a JSON object.")
@shared_options()
@click.pass_obj
def command(options: Options, call: str, given: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Make CALL again, and show what is different.

    The arguments are those that the tool was given then. Arguments that the journal does not have in full, because they
    are secret or long, must be given: --set NAME=VALUE, or --set NAME:=JSON.

    Exit code: 0 the same outcome and result, 1 another one, 2 the call was not made.
    """
    words = read_pairs(given)
    with past_calls(options) as history:
        before = find_call(history, call, options)
    arguments = arguments_of(before, words)
    output = claim_stdout()
    prompt = None if yes else terminal_prompt()

    async def replay(runtime: Runtime) -> int:
        if prompt is not None:
            prompt.runtime = runtime
        if runtime.journal is None:
            raise UsageError(
                "the journal of the project is off ([journal] enabled), so there is nothing to compare with"
            )
        await runtime.ready(before.tool)
        try:
            prepared = await runtime.executor.find(before.tool)
        except CallError as error:
            runtime.log_problems()
            raise UsageError(f"call {call} cannot be made again: {error}") from error
        if prepared.effects is not Effects.NONE and not yes:
            _ask(before, arguments, prepared.effects)
        with status_line(output, before.tool, is_wanted=not as_json) as status:
            hear = status.listener(before.tool)
            result = await runtime.executor.execute(before.tool, arguments, on_progress=hear)
        runtime.journal.flush()
        id = read_id(result.recorded_as or "")
        with open_history(runtime.journal.path) as history:
            after = None if id is None else history.call(id)
        if after is None:
            raise UsageError(f"the call was made, but is not in the journal: {result.error or render(result.shown)}")
        return _compare(output, before, after, as_json=as_json)

    return run_with_tools(options, replay, lazy=True, on_approval=always_yes if yes else prompt)


def _ask(before: PastCall, arguments: dict[str, JSON], effects: Effects | None) -> None:
    """Raises UsageError unless the user agrees."""
    what = f"'{before.tool}' may act again (its effects are {effects or 'not declared'})"
    if before.state in (CallState.STARTED, CallState.IN_DOUBT) and before.settled_as is None:
        what += f"; call {before.shown_id} may have acted already, and nobody knows whether it did"
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{what}: add --yes to call it")
    shown = terminal_safe(cut(json.dumps(arguments, ensure_ascii=False), 200))
    if not click.confirm(f"{what}. Call it with {shown}?", err=True):
        raise UsageError(f"call {before.shown_id} was not made again")


def _compare(output: Output, before: PastCall, after: PastCall, *, as_json: bool) -> int:
    is_same = (outcome_of(before), before.result, before.error) == (outcome_of(after), after.result, after.error)
    if as_json:
        output.json({"same": is_same, "before": before.to_dict(), "after": after.to_dict()})
    else:
        lines = [f"{after.tool}  {before.shown_id} → {after.shown_id}"]
        lines.append(f"  outcome:  {_change(outcome_of(before), outcome_of(after))}")
        lines.append(f"  took:     {duration_of(before.run_us) or '–'} → {duration_of(after.run_us) or '–'}")
        for title, one, other in (
            ("arguments", before.arguments, after.arguments),
            ("error", before.error, after.error),
            ("result", before.result, after.result),
        ):
            lines += _difference(title, one, other, before.withheld if title == "arguments" else None)
        output.text("\n".join(lines))
    if not is_same and not as_json:
        complain(f"the call ended differently than {before.shown_id}")
    return OK if is_same else FAILED


def _change(before: str, after: str) -> str:
    return f"{after}, as before" if before == after else f"{before} → {after}"


def _difference(title: str, before: str | None, after: str | None, withheld: str | None = None) -> list[str]:
    if before == after:
        return [] if after is None else [f"  {title}: the same{_UNKNOWN.get(withheld, '')}"]
    lines = [*difflib.unified_diff(pretty_lines(before), pretty_lines(after), lineterm="", n=2)][
        2:
    ]  # without the file names
    return [f"  {title}:", *(f"    {line}" for line in lines)]
