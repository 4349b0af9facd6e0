"""`toolrun approvals`: shows the calls that wait for a person, and answers them. Starts no tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click

from toolrun.cli.argument_pairs import read_pairs
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, inform
from toolrun.cli.recorded_call import how_answered, journal_path, past_calls, time_of
from toolrun.errors import JournalError, UsageError
from toolrun.execution.approval import Allow, Answer, Deny, Scope
from toolrun.journal.approval_row import StoredApproval
from toolrun.journal.settlement import person
from toolrun.json import JSON, JSONDecodeError, loads
from toolrun.redaction import Redactor
from toolrun.runtime import open_journal, read_config
from toolrun.text import cut, one_line
from toolrun.trust.approvals import Approvals

T = TypeVar("T")

_SHOWN: Final = 80
"""Characters of arguments in the list."""

_json = click.option("--json", "as_json", is_flag=True, help="Print the request afterwards, as a JSON object.")


@click.group(name="approvals", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """List the calls that wait for approval, and the answers that still hold.

    'toolrun approvals show ID' shows all of a request; 'toolrun approvals allow ID' and 'toolrun approvals deny ID'
    answer; 'toolrun approvals revoke ID' takes an answer back.
    """
    if context.invoked_subcommand is not None:
        return OK
    options = context.ensure_object(Options)
    _check_journal(options)
    output = claim_stdout()
    found = _open_approvals(options)
    if as_json:
        output.json([row.to_dict() for row in found])
    elif found:
        columns = [Column("ID", "dim"), Column("ASKED"), Column("TOOL", "bold cyan"), Column("STATE", wraps=True)]
        columns += [Column("WHO ASKS"), Column("WHY", wraps=True), Column("ARGUMENTS", wraps=True)]
        output.table(columns, [_row(row) for row in found])
        if any(row.state == "pending" for row in found):
            inform("Answer with: toolrun approvals allow ID, or toolrun approvals deny ID.")
        if any(len(row.arguments) > _SHOWN for row in found):
            inform("Arguments are cut; see all of them with: toolrun approvals show ID.")
    else:
        complain("no call is waiting for approval, and no answer is stored")
    return OK


@command.command(name="show")
@click.argument("id", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@shared_options()
@click.pass_obj
def show_command(options: Options, id: int, as_json: bool) -> int:
    """Show request ID with all of its arguments, and what was answered.

    Exit code: 0 it is shown, 2 there is no such request.
    """
    row = _find(options, id)
    output = claim_stdout()
    if as_json:
        output.json(row.to_dict())
        return OK
    for name, value in _facts(row):
        output.text(f"{name}: {one_line(value)}")
    return OK


@command.command(name="allow")
@click.argument("id", type=click.IntRange(1))
@click.option("--always", is_flag=True, help="Also for every later call of the tool with the same arguments.")
@click.option("--conversation", is_flag=True, help="Also for such calls in the same conversation.")
@click.option("--set", "given", metavar="NAME=VALUE", multiple=True, help="Another value for an argument.")
@_json
@shared_options()
@click.pass_obj
def allow_command(
    options: Options, id: int, always: bool, conversation: bool, given: tuple[str, ...], as_json: bool
) -> int:
    """Let the call of request ID be made.

    Exit code: 0 it is allowed, 1 the request can no longer be answered, 2 there is no such request.
    """
    scope = _scope(always, conversation)
    pairs = read_pairs(given) if given else None
    row = _find(options, id)
    arguments = None if pairs is None else _changed(row, pairs)
    return _answer(options, row, Allow(scope, arguments, by=person()), as_json)


@command.command(name="deny")
@click.argument("id", type=click.IntRange(1))
@click.option("--reason", metavar="TEXT", default="", help="What the model is told.")
@click.option("--always", is_flag=True, help="Also for every later call of the tool with the same arguments.")
@click.option("--conversation", is_flag=True, help="Also for such calls in the same conversation.")
@_json
@shared_options()
@click.pass_obj
def deny_command(options: Options, id: int, reason: str, always: bool, conversation: bool, as_json: bool) -> int:
    """Refuse the call of request ID.

    Exit code: 0 it is denied, 1 the request can no longer be answered, 2 there is no such request.
    """
    scope = _scope(always, conversation)
    return _answer(options, _find(options, id), Deny(reason, scope, by=person()), as_json)


@command.command(name="revoke")
@click.argument("id", type=click.IntRange(1))
@_json
@shared_options()
@click.pass_obj
def revoke_command(options: Options, id: int, as_json: bool) -> int:
    """Take back the answer to request ID: the next such call is asked about again.

    Exit code: 0 it is revoked, 1 there is no answer that could still be used, 2 there is no such request.
    """
    row = _find(options, id)
    is_revoked = _with_approvals(options, lambda approvals: approvals.revoke(id))
    after = _find(options, id)
    if as_json:
        claim_stdout().json(after.to_dict())
    if not is_revoked:
        why = "is not answered yet; deny it with: toolrun approvals deny " + str(id)
        complain(f"request {id} {why if row.state == 'pending' else _ended(after)}")
        return FAILED
    inform(f"Request {id} ({row.tool}) is revoked; it was {how_answered(row)}.")
    return OK


def _scope(always: bool, conversation: bool) -> Scope:
    if always and conversation:
        raise UsageError("--always and --conversation exclude each other")
    return Scope.ALWAYS if always else Scope.CONVERSATION if conversation else Scope.ONCE


def _answer(options: Options, row: StoredApproval, answer: Answer, as_json: bool) -> int:
    problem = _with_approvals(options, lambda approvals: approvals.answer(row.id, answer))
    row = _find(options, row.id)
    if as_json:
        claim_stdout().json(row.to_dict())
    if problem is not None:
        complain(f"request {row.id} {_ended(row) if row.state != 'pending' else problem}")
        return FAILED
    inform(f"Request {row.id} ({row.tool}) is {how_answered(row)}.")
    return OK


def _ended(row: StoredApproval) -> str:
    """Why a request cannot be answered, or its answer not be revoked."""
    if row.answered_at is not None:
        more = {"used": "; its answer was used", "expired": "; its answer has expired", "revoked": "; it was revoked"}
        return f"was {how_answered(row, with_time=True)}{more.get(row.state, '')}"
    words = {"expired": "has expired: nobody answered in time", "withdrawn": "is no longer wanted"}
    return words.get(row.state, f"is {row.state}")


def _changed(row: StoredApproval, given: dict[str, JSON]) -> dict[str, JSON]:
    """The arguments of a request with other values. Raises UsageError if not all of them are known here."""
    if row.withheld is not None:
        why = "have a secret in them" if row.withheld == "hidden" else "are too long for the journal"
        raise UsageError(f"the arguments of request {row.id} {why}, so they cannot be changed here")
    try:
        arguments: JSON = loads(row.arguments)
    except JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise UsageError(f"the arguments of request {row.id} cannot be read")
    return {**arguments, **given}


def _find(options: Options, id: int) -> StoredApproval:
    """Raises UsageError."""
    _check_journal(options)
    row = None
    if journal_path(options).exists():
        with past_calls(options) as history:
            row = history.approval(id)
    if row is None:
        raise UsageError(f"there is no request {id} in the journal; 'toolrun approvals' lists what can be answered")
    return row


def _open_approvals(options: Options) -> list[StoredApproval]:
    if not journal_path(options).exists():
        return []
    with past_calls(options) as history:
        return history.approvals()


def _check_journal(options: Options) -> None:
    config = read_config(options.config)
    if config.path is not None and not config.journal.enabled:
        raise JournalError(
            f"Requests for approval are kept in the journal, which {config.path} switches off ([journal] enabled)."
        )


def _with_approvals(options: Options, work: Callable[[Approvals], Awaitable[T]]) -> T:
    """Work with the approvals of the project; no tool is started."""
    config = read_config(options.config)
    journal = open_journal(config, "approvals")

    async def run() -> T:
        redactor = Redactor(config.secrets.values())
        return await work(Approvals(config.approval, journal=journal, redactor=redactor))

    try:
        return asyncio.run(run())
    finally:
        journal.close()


def _facts(row: StoredApproval) -> list[tuple[str, str]]:
    """Everything about a request, a line each."""
    facts = [("request", str(row.id)), ("tool", row.tool), ("from", row.source), ("why", row.reason)]
    facts += [("asked by", row.consumer), ("asked", time_of(row.asked_at)), ("state", _state(row))]
    withheld = {"hidden": " (secrets are hidden)", "cut": " (the rest is not in the journal)"}
    facts.append((f"arguments{withheld.get(row.withheld or '', '')}", row.arguments))
    if row.edited is not None:
        facts.append(("changed to", row.edited))
    return [(name, value) for name, value in facts if value]


def _state(row: StoredApproval) -> str:
    if row.state == "pending":
        return f"waits until {time_of(row.expires_at)}"
    return how_answered(row) if row.state in ("allowed", "denied") else _ended(row)


def _row(row: StoredApproval) -> tuple[str, ...]:
    return (
        str(row.id),
        time_of(row.asked_at),
        row.tool,
        _state(row),
        row.consumer,
        row.reason,
        one_line(cut(row.arguments, _SHOWN)),
    )
