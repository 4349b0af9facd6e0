"""What the commands about past calls share: the file to read, times as people write them, ids as they see them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from toolrun.cli.options import Options
from toolrun.errors import JournalError, UsageError
from toolrun.journal.call_record import read_id
from toolrun.journal.history import Gap, History, PastCall, open_history
from toolrun.journal.moment import parse_moment
from toolrun.runtime import read_config
from toolrun.text import one_line, plural

if TYPE_CHECKING:
    from pathlib import Path

    from toolrun.config.model import Config
    from toolrun.journal.approval_row import StoredApproval

_NAMED: Final = re.compile(r"\bCall (\d+-\d+) ")


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs of click 8.3 only
    """A point in time: `10m` ago, `14:30` today, `2026-11-16`, or any ISO 8601 time."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """In microseconds since 1970."""
        if isinstance(value, int):
            return value
        try:
            return parse_moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def journal_path(options: Options) -> Path:
    """Raises JournalError if there is no project, and no journal either."""
    config = read_config(options.config)
    path = config.journal_file
    if config.path is None and not path.exists():
        raise JournalError("There is no toolrun.toml here or above: calls are recorded only in projects.")
    return path


def settle_command(call: str, options: Options, *, can_verify: bool = False) -> str:
    """What puts an end to a doubt."""
    command = options.command_line("effects", "settle", call, "--done")
    return f"{command} (or --not-done{', or --verify to ask the tool' if can_verify else ''})"


@contextmanager
def past_calls(options: Options) -> Iterator[History]:
    """The journal of the project. Raises JournalError if there is none."""
    with open_history(journal_path(options)) as history:
        yield history


def doubts_since(config: Config, since: int, consumer: str, options: Options) -> list[str]:
    """A line for each call that a command has left in doubt. `since` is in microseconds."""
    lines: list[str] = []
    with suppress(JournalError), open_history(config.journal_file) as history:
        for call in history.in_doubt():
            if call.at >= since and call.consumer == consumer:
                settle = settle_command(call.shown_id, options)
                lines.append(f"Call {call.shown_id} of '{call.tool}' may have acted. Find out, then run: {settle}")
    return lines


def find_call(history: History, shown: str, options: Options) -> PastCall:
    """The call that the user means. Raises UsageError."""
    id = read_id(shown)
    if id is None:
        log = options.command_line("log")
        raise UsageError(f"'{shown}' is not the id of a call; '{log}' shows ids such as 17-204")
    call = history.call(id)
    if call is None:
        log = options.command_line("log")
        raise UsageError(f"there is no call {shown} in the journal; '{log}' lists those that are there")
    return call


def time_of(at: int) -> str:
    """The time of the day, with the date unless it is today."""
    moment = datetime.fromtimestamp(at / 1_000_000).astimezone()
    is_today = moment.date() == datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def duration_of(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    if microseconds < 1000:
        return f"{microseconds} µs"
    return f"{microseconds / 1000:.1f} ms" if microseconds < 1_000_000 else f"{microseconds / 1_000_000:.2f} s"


def outcome_of(call: PastCall) -> str:
    """`ok`, why it failed, or what is known of it."""
    if call.state == "done":
        return "ok"
    if call.state == "in_doubt":
        settled = f", settled as {call.settled_as.replace('_', ' ')}" if call.settled_as else ""
        return f"in doubt ({call.error_kind}){settled}" if call.error_kind else f"in doubt{settled}"
    if call.state == "started":
        return "running"
    if call.error_kind == "in_doubt" and call.state == "refused":
        first = _NAMED.search(call.error or "")
        return f"refused: {first[1]} is in doubt" if first else "refused: in doubt"
    return call.error_kind or call.state


def gap_of(gap: Gap) -> str:
    """Calls that are missing, in words."""
    were = "was" if gap.calls == 1 else "were"
    between = f"between {time_of(gap.started_at)} and {time_of(gap.ended_at)}"
    return f"{plural(gap.calls, 'call')} {were} not recorded {between}: {gap.why}"


def how_answered(approval: StoredApproval, *, with_time: bool = False) -> str:
    """What somebody has said about a call, in words; empty if nobody has."""
    if approval.answered_at is None:
        return ""
    verdict = "denied" if approval.comment is not None else "allowed"
    scopes = {"conversation": " for its conversation", "always": " always"}
    changed = " with changed arguments" if approval.edited is not None else ""
    who = one_line(approval.answered_by or "the program").removeprefix("person:")
    why = f": {one_line(approval.comment)}" if approval.comment else ""
    when = f" at {time_of(approval.answered_at)}" if with_time else ""
    return f"{verdict}{scopes.get(approval.scope or '', '')}{changed} by {who}{when}{why}"


def pretty_lines(text: str | None) -> list[str]:
    """Recorded arguments or a recorded result, as a person reads them."""
    if text is None:
        return []
    try:
        value = json.loads(text)
    except ValueError:  # an error, or a text that was cut
        return text.splitlines()
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)).splitlines()
