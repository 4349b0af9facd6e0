"""Conversations in the journal: the messages in the order in which they happened, and who has the conversation.

They go through the same queue as the calls, so a message is on disk before the calls that it asks for, and a crash
leaves a beginning of what happened. Knows messages as text; what is in them is the business of `toolrun.clients`.

One process has a conversation at a time. Whoever finds it with a process that is dead takes it over.
"""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Iterable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import time_ns
from typing import Final, NamedTuple

from toolrun.errors import UsageError
from toolrun.journal.history import unknown_conversation
from toolrun.journal.journal import Journal
from toolrun.journal.ledger import hash_key
from toolrun.journal.statements import sql
from toolrun.logger import get_logger
from toolrun.text import shown_name

logger = get_logger("toolrun.journal")

QUESTION: Final = "question"
"""The role of the message with which a turn begins."""
END: Final = "end"
"""The role of the row that says that a turn has its reply."""
current_conversation: ContextVar[int | None] = ContextVar("toolrun_conversation", default=None)
"""The row of the conversation for which calls are made here."""
_MAX_NAME: Final = 128


class StoredMessage(NamedTuple):
    """One row."""

    role: str
    body: str
    at: int


class PastOutcome(NamedTuple):
    """What the journal knows of a call that was begun."""

    state: str
    error: str | None
    error_kind: str | None
    side_effects: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    name: str
    consumer: str
    model: str
    format: str
    must_exist: bool
    any_model: bool


class Conversation:
    """A conversation that this process has, until `close`."""

    def __init__(self, journal: Journal, row: int, wanted: _Wanted, created_at: int) -> None:
        self.name = wanted.name
        self.row = row
        self.model = wanted.model
        self.was_cut_off = False
        """Whether the process that had it before ended without letting go of it."""
        self.messages: list[StoredMessage] = []
        self._journal = journal
        self._wanted = wanted
        self._created_at = created_at
        self._saved = 0
        self._has_warned = False

    def key_of(self, call_id: str) -> str | None:
        """What makes a call the same after a crash; None if the journal does not know that it was asked for."""
        # The time tells it from an earlier conversation of the same name, which is forgotten by now.
        return f"{self.name} {self._created_at} {call_id}" if self._saved == len(self.messages) else None

    def add(self, messages: Iterable[tuple[str, str]]) -> Future[None]:
        """Write messages (role and body), after all that happened before. What fails is tried again next time."""
        now = time_ns() // 1000
        self.messages += [StoredMessage(role, body, now) for role, body in messages]
        end = len(self.messages)
        writing = self._journal.run(partial(self._write, end, now))
        writing.add_done_callback(partial(self._written, end))
        return writing

    async def outcome_of(self, call_id: str) -> PastOutcome | None:
        """What became of a call of this conversation, or None if it was never begun."""
        key = self.key_of(call_id)
        if key is None:
            return None

        def find(connection: sqlite3.Connection) -> PastOutcome | None:
            row = connection.execute(sql("outcome_of_key"), (hash_key("", key),)).fetchone()
            return None if row is None else PastOutcome(*row)

        return await asyncio.wrap_future(self._journal.run(find))

    async def forget(self) -> None:
        """Begin anew: nothing was said so far. Raises NotRecordedError."""
        forgetting = self._journal.run(lambda connection: connection.execute(sql("delete_messages_of"), (self.row,)))
        await asyncio.wrap_future(forgetting)
        self.messages, self._saved = [], 0

    def close(self) -> Future[None]:
        """Let go of it: when the future is done, anybody may go on with it."""
        return _release(self._journal, self._wanted)

    def _write(self, end: int, now: int, connection: sqlite3.Connection) -> None:
        start, wanted, process = self._saved, self._wanted, self._journal.process
        values = (now, self.model, process, self.row, self.name, self._created_at)
        if not connection.execute(sql("touch_conversation"), values).rowcount:
            # The file was replaced while the conversation went on.
            start = 0
            fields = (wanted.consumer, self.model, wanted.format, process, self._created_at, now)
            connection.execute(sql("add_conversation"), (self.row, self.name, *fields))
        for seq, message in enumerate(self.messages[start:end], start):
            connection.execute(sql("add_message"), (self.row, seq, message.at, message.role, message.body))

    def _written(self, end: int, writing: Future[None]) -> None:
        if writing.cancelled():
            return
        error = writing.exception()
        if error is None:
            self._saved = max(self._saved, end)
            self._has_warned = False
        elif not self._has_warned:
            self._has_warned = True
            logger.warning("the conversation %s is not saved at the moment: %s", self.name, error)


async def open_conversation(
    journal: Journal,
    name: str | None,
    *,
    model: str,
    format: str = "",
    consumer: str = "",
    must_exist: bool = False,
    any_model: bool = False,
) -> Conversation:
    """Take a conversation, or start one; without a name it is a new one. Raises UsageError, and changes nothing then.

    `model` is with whom it is held; `any_model`: also if it was somebody else. `format` says what the bodies are.
    """
    if name is None:
        name, must_exist = uuid.uuid4().hex[:8], False
    elif not isinstance(name, str) or not _is_name(name):
        raise UsageError("The id of a conversation is one line of 1 to 128 characters, without space around it.")
    wanted = _Wanted(name, consumer or journal.consumer, model, format, must_exist, any_model)
    taking = journal.run(partial(_claim, journal, wanted))
    try:
        return await asyncio.wrap_future(taking)
    except BaseException:  # it may be taken all the same, if this was cancelled too late
        taking.add_done_callback(lambda _: _release(journal, wanted))
        raise


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME and text == text.strip() and text.isprintable()


def _claim(journal: Journal, wanted: _Wanted, connection: sqlite3.Connection) -> Conversation:
    found = connection.execute(sql("find_conversation"), (wanted.name,)).fetchone()
    if found is None:
        if wanted.must_exist:
            raise UsageError(unknown_conversation(connection, wanted.name))
        now = time_ns() // 1000
        fields = (wanted.consumer, wanted.model, wanted.format, journal.process, now, now)
        row = connection.execute(sql("add_conversation"), (None, wanted.name, *fields)).lastrowid
        assert row is not None
        journal.held[wanted.name] = wanted
        return Conversation(journal, row, wanted, now)
    row, model, process, created_at = found
    if _has_owner(journal, wanted.name, process):
        raise UsageError(_busy(connection, wanted.name, process))
    if model != wanted.model and not wanted.any_model:
        raise UsageError(
            f"Conversation '{shown_name(wanted.name)}' was held with {model}, and this is {wanted.model}. "
            "Continue with the same model, or resume it with any_model=True."
        )
    connection.execute(sql("claim_conversation"), (journal.process, row))
    conversation = Conversation(journal, row, wanted, created_at)
    rows = connection.execute(sql("messages_of"), (row,))
    conversation.messages = [StoredMessage(*message) for message in rows]
    conversation._saved = len(conversation.messages)
    conversation.was_cut_off = process is not None
    journal.held[wanted.name] = wanted
    return conversation


def _release(journal: Journal, wanted: _Wanted) -> Future[None]:
    def release(connection: sqlite3.Connection) -> None:
        if journal.held.get(wanted.name) is wanted:  # else somebody else has it
            del journal.held[wanted.name]
            connection.execute(sql("release_conversation"), (wanted.name, journal.process))

    return journal.run(release)


def _has_owner(journal: Journal, name: str, process: int | None) -> bool:
    if process is None:
        return False
    return journal.is_held(name) if process == journal.process else journal.is_alive(process)


def _busy(connection: sqlite3.Connection, name: str, process: int) -> str:
    row = connection.execute(sql("process_of"), (process,)).fetchone()
    who = "another process" if row is None else f"process {row[1]}{f' (toolrun {row[2]})' if row[2] else ''}"
    return f"Conversation '{shown_name(name)}' is in use by {who}. End it there first, or start another conversation."
