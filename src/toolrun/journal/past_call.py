"""One recorded call: the arguments to make it again with, and what is known of it while it is in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from toolrun.errors import UsageError
from toolrun.journal.call_record import MORE
from toolrun.journal.history import PastCall
from toolrun.json import JSON, JSONDecodeError, dumps, loads
from toolrun.redaction import HIDDEN
from toolrun.text import cut


def arguments_of(
    call: PastCall, given: Mapping[str, JSON], how: str = "--set NAME=VALUE (or NAME:=JSON)"
) -> dict[str, JSON]:
    """The arguments that a call was run with, with those that are given instead.

    Raises UsageError if some are not on record; `how` says how to give them.
    """
    recorded: JSON = None
    with suppress(JSONDecodeError):  # it was cut in the middle
        recorded = loads(call.arguments or "{}")
    if not isinstance(recorded, dict) or (call.withheld == "cut" and MORE in recorded):
        raise UsageError(
            f"the arguments of call {call.shown_id} were too long, and not even their names are all in the journal: "
            f"{how.split()[0]} cannot complete them"
        )
    if call.withheld == "hidden":
        missing = [name for name, value in recorded.items() if name not in given and _is_hidden(name, value)]
        why = "some arguments of call {} were hidden, so they are not in the journal"
    else:
        missing = [name for name in recorded if name not in given] if call.withheld else []
        why = "the arguments of call {} were too long, and are cut in the journal"
    if missing:
        shown = ", ".join(missing)
        raise UsageError(f"{why.format(call.shown_id)}: {shown}. Give them with {how}")
    return {**recorded, **given}


def _is_hidden(name: str, value: JSON) -> bool:
    return HIDDEN in dumps([name, value]).decode()


def doubt_of(call: PastCall) -> str:
    """Why nobody knows whether a call has acted, in words."""
    match call.error_kind:
        case "timeout" if call.side_effects == "unknown":
            return "its deadline passed while it ran"
        case "cancelled":
            return "it was cancelled while it ran"
        case "worker_lost":
            return "its worker died while it ran"
        case None | "host_lost":
            return "the program that ran it died"
        case _:
            return f"it failed and may have acted: {cut(call.error or '', 80)}"
