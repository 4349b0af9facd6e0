"""Settles a doubt: a person, `verify` or the late end of an attempt says whether the call has acted."""

from __future__ import annotations

import getpass
import sqlite3
from datetime import datetime
from time import time_ns
from typing import Final

from toolrun.journal.statements import sql

_WHO: Final = {"late": "its late end", "verify": "its 'verify'", "person": "somebody"}
"""Who settles a doubt, in words."""


def settle(connection: sqlite3.Connection, id: int, settled_as: str, settled_by: str) -> str | None:
    """Add the settlement to a call that is in doubt. Returns why that cannot be done, or None if it was."""
    changed = connection.execute(sql("settle"), (settled_as, settled_by, time_ns() // 1000, id)).rowcount
    if changed:
        return None
    row = connection.execute(sql("doubt_of"), (id,)).fetchone()
    if row is None:
        return "is not in the journal"
    state, before, by, at = row
    if before is None:
        return f"is not in doubt: it is {state}"
    moment = datetime.fromtimestamp(at / 1_000_000).astimezone()
    if before == "repeated":
        return f"was made again under its key on {moment:%Y-%m-%d at %H:%M:%S}, so it need not be settled"
    return f"was settled before, as {before.replace('_', ' ')}, by {_who(by)} on {moment:%Y-%m-%d at %H:%M:%S}"


def person() -> str:
    """Who settles a doubt by hand, as it is recorded."""
    try:
        return f"person:{getpass.getuser()}"
    except (OSError, KeyError):  # a user without a name, as in some containers
        return "person"


def how_settled(settled_as: str, settled_by: str | None) -> str:
    """A settlement in words."""
    if settled_as == "repeated":
        return "settled: made again under its key"
    return f"settled as {settled_as.replace('_', ' ')} by {_who(settled_by)}"


def _who(settled_by: str | None) -> str:
    known = settled_by or "nobody"
    return _WHO.get(known) or known.removeprefix("person:")
