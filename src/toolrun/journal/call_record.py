"""One call as the journal writes it: filled by the executor's loop, read by the writer's thread. Values only."""

from __future__ import annotations

import asyncio
import hashlib
import os
from concurrent.futures import Future
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from toolrun.result import ID_BITS
from toolrun.result import show_id as show_id
from toolrun.tools.call_log import CallLog

MORE: Final = "…"
"""In place of the names of arguments that are not on record, because there were too many."""


class CallState(StrEnum):
    """What is known of the effect of a call.

        – → refused                      never ran
        – → started → done               the body returned
                    → failed             the body says that nothing happened
                    → cancelled          given up; no effect to worry about
                    → in_doubt           it may have acted, and nobody knows

    A doubt stays on record; its settlement is added to it.
    """

    REFUSED = "refused"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"


class ToolRow(NamedTuple):
    """A tool as it said of itself what it is."""

    name: str
    source: str
    definition: str
    """Hash of its description, schema and annotations."""
    place: str = "host"
    """Where its body runs, and how long a server may act on a call that was given up: see `attempt.py`."""
    settle_us: int = 0


class Ending(NamedTuple):
    """How a call ended. Set in one step, because the writer may look at any moment."""

    state: CallState
    run_us: int
    result: str | None = None
    error: str | None = None
    error_kind: str | None = None
    side_effects: str | None = None
    answer: str | None = None
    """The whole answer, to be given again to whoever repeats the key."""


class CallRecord:
    """A call that is being recorded. What most calls do not have is a default of the class: making one is cheap."""

    __slots__ = (
        "__dict__",
        "arguments",
        "at",
        "effects",
        "ending",
        "given_id",
        "id",
        "is_taken",
        "queued_us",
        "tool",
        "waiter",
        "worker",
    )

    original: str | None = None
    repairs: str | None = None
    dropped: str | None = None
    key: bytes | None = None
    fingerprint: bytes | None = None
    parent: int | None = None
    conversation: int | None = None
    approval: int | None = None
    """The answer by which it was made, if somebody was asked."""
    log: CallLog | None = None
    """What the tool logged, if anything."""
    consumer = ""
    attempt = 1
    is_required = False
    """Whether who waits must not go on if the journal cannot be written."""
    claim: Future[None] | None = None
    """The transaction that takes the key."""
    late_outcome: tuple[object, BaseException | None] | None = None
    """What the body returned or raised at the deadline, before the call was answered."""
    is_withdrawn = False
    """The body did not run after its start was handed over."""
    is_cut = False
    """Whether the arguments are not all there."""

    def __init__(
        self, id: int, tool: ToolRow, at: int, arguments: str, effects: str | None, queued_us: int = 0
    ) -> None:
        self.id = id
        self.tool = tool
        self.at = at
        self.arguments = arguments
        """JSON text, not yet redacted."""
        self.effects = effects
        self.queued_us = queued_us
        self.given_id: str | None = None
        self.ending: Ending | None = None
        self.worker: str | None = None
        self.waiter: asyncio.Future[None] | None = None
        """Who waits until the start of the call is on disk."""
        self.is_taken = False
        """The writer has it: what changes from now on must be handed over again."""

    @property
    def is_usual(self) -> bool:
        """Whether the call has nothing that most calls do not have."""
        return not self.__dict__

    @property
    def idempotency_key(self) -> str:
        """What the destination of the call knows it by."""
        return destination_key(self.key, self.id, self.at, os.getpid(), boot_id())


FinishedCall: TypeAlias = tuple[ToolRow, "str | None", int, int, str, str, "str | None"]
"""A call without effects that was over at once, in the cheapest form there is: the tool, its effects, when it ended
(nanoseconds), how long it took (microseconds), arguments, result, and the id that the caller gave."""


def record_of(id: int, call: FinishedCall) -> CallRecord:
    tool, effects, ended, took_us, arguments, result, given_id = call
    record = CallRecord(id, tool, ended // 1000 - took_us, arguments, effects)
    record.given_id = given_id
    record.ending = Ending(CallState.DONE, took_us, result)
    return record


def make_id(process: int, number: int) -> int:
    return process << ID_BITS | number


def read_id(text: str) -> int | None:
    """The id that `show_id` shows so; None for anything else."""
    process, separator, number = text.strip().partition("-")
    if not separator or not (process.isdecimal() and number.isdecimal()) or not (process + number).isascii():
        return None
    row, count = int(process), int(number)
    return make_id(row, count) if row < 1 << 31 and count < 1 << ID_BITS else None


def destination_key(key: bytes | None, id: int, at: int, pid: int, boot: str) -> str:
    """The key of a call for its destination, from what is in its row and in that of its process.

    The numbers of a call begin anew in each journal, so they alone would be the key of some other project's call.
    """
    if key is not None:
        return key.hex()
    return hashlib.sha256(f"{boot}\0{pid}\0{id}\0{at}".encode()).hexdigest()[:32]


@cache
def boot_id() -> str:
    """Which boot of the machine this is; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
