"""Utterances that were taken, by the id that their publisher gave them: in the journal, so that a gateway knows them
after a restart, and so that of two gateways one answers.

    – → taken       a process answers it, in a conversation with a name that only this utterance has
      → answered    nobody has to do anything about it any more
    taken → taken   its process is dead: whoever gets the utterance next goes on with the conversation
"""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from dataclasses import dataclass
from time import time_ns

from toolrun.journal.journal import Journal
from toolrun.journal.statements import sql


@dataclass(frozen=True, slots=True)
class Claim:
    """An utterance that this process answers."""

    conversation: str | None
    """In which it is answered, from the beginning or from where another process was killed; None: none is kept."""


async def claim_utterance(journal: Journal, source: str, id: str) -> Claim | None:
    """Take the utterance, unless somebody answers it or has answered it. Raises NotRecordedError."""

    def claim(connection: sqlite3.Connection) -> Claim | None:
        name = f"voice-{uuid.uuid4().hex[:12]}" if journal.keeps_conversations else None
        row = (source, id, time_ns() // 1000, journal.process, name)
        if connection.execute(sql("claim_utterance"), row).rowcount == 1:
            return Claim(name)
        process, name = connection.execute(sql("find_utterance"), (source, id)).fetchone()
        if process is None or process == journal.process or journal.is_alive(process):
            return None
        if name is None:  # what was done about it is not known, so nothing is done again
            return None
        connection.execute(sql("take_utterance"), (journal.process, source, id))
        return Claim(name)

    return await asyncio.wrap_future(journal.run(claim))


async def end_utterance(journal: Journal, source: str, id: str, conversation: str | None) -> None:
    """It has its answer: what was said is not needed any more. Raises NotRecordedError."""

    def end(connection: sqlite3.Connection) -> None:
        connection.execute(sql("utterance_answered"), (source, id))
        connection.execute(sql("delete_messages_of_name"), (conversation,))

    await asyncio.wrap_future(journal.run(end))


def release_utterance(journal: Journal, source: str, id: str) -> None:
    """It was refused, and nothing was done about it: its publisher may send it again."""
    journal.run(lambda connection: connection.execute(sql("release_utterance"), (source, id)))
