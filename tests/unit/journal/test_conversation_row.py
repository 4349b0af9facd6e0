"""Conversations as rows: who has them, what stays, and what is forgotten."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from time import time_ns

import pytest

from support.journal_world import World
from toolrun.errors import UsageError
from toolrun.journal.conversation_row import END, QUESTION, Conversation, open_conversation
from toolrun.journal.history import open_history
from toolrun.journal.journal import Journal
from toolrun.journal.retention import Retention

DAY = 24 * 3600 * 1_000_000


async def take(journal: Journal, name: str | None = "talk") -> Conversation:
    return await open_conversation(journal, name, model="m")


def leave_behind(path: Path, *roles: str) -> None:
    """A conversation `dead` with these rows, whose process is dead."""
    program = f"""
        import asyncio, os
        from pathlib import Path
        from toolrun.journal.conversation_row import open_conversation
        from toolrun.journal.journal import Journal

        async def main():
            journal = Journal(Path({str(path)!r}), consumer="chat")
            taken = await open_conversation(journal, "dead", model="m")
            taken.add([(role, "{{}}") for role in {roles!r}]).result()
            os._exit(0)

        asyncio.run(main())
    """
    subprocess.run([sys.executable, "-c", dedent(program)], check=True, timeout=60)


async def names(world: World) -> list[str]:
    await world.journal.drain()

    def read(connection: sqlite3.Connection) -> list[str]:
        return [name for (name,) in connection.execute("SELECT name FROM conversation ORDER BY id")]

    return await asyncio.wrap_future(world.journal.run(read))


async def age(world: World, days: float) -> None:
    """All conversations were last used so many days ago."""

    def change(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE conversation SET updated_at = ?", (time_ns() // 1000 - int(days * DAY),))

    await asyncio.wrap_future(world.journal.run(change))


async def forget(world: World, retention: Retention) -> None:
    """As the writer does between two batches."""
    writer = sqlite3.connect(world.path, isolation_level=None)
    try:
        retention.step(writer)
    finally:
        writer.close()


async def test_ids_of_new_conversations_are_short_and_differ(world: World) -> None:
    found = {(await take(world.journal, None)).name for _ in range(20)}
    assert len(found) == 20
    assert all(len(name) == 8 for name in found)


async def test_one_whose_process_is_dead_can_be_taken_at_once(world: World) -> None:
    leave_behind(world.path, QUESTION)
    taken = await take(world.journal, "dead")
    assert taken.was_cut_off
    assert [message.role for message in taken.messages] == [QUESTION]
    taken.close()
    again = await take(world.journal, "dead")
    assert not again.was_cut_off


async def test_the_last_one_of_a_consumer_is_one_that_nobody_has(world: World) -> None:
    leave_behind(world.path, QUESTION, END)
    with open_history(world.path) as history:
        found = history.last_conversation("chat")
        assert found is not None
        assert (found.name, found.model) == ("dead", "m")
        assert history.last_conversation("ask") is None
        taken = await take(world.journal, "dead")
        with open_history(world.path) as other:  # of this process, which has it
            assert other.last_conversation("chat") is None
        taken.close()
        await world.journal.drain()
        assert history.last_conversation("chat") is not None


async def test_whoever_gives_up_while_it_waits_does_not_have_it(world: World) -> None:
    with world.blocked_journal():
        waiting = asyncio.create_task(take(world.journal))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    (await take(world.journal)).close()


async def test_a_refusal_takes_nothing_from_who_has_it(world: World) -> None:
    first = await take(world.journal)
    for _ in range(2):
        with pytest.raises(UsageError, match="is in use"):
            await take(world.journal)
    first.close()
    await take(world.journal)


async def test_what_cannot_be_written_is_written_later_and_has_no_keys_until_then(world: World) -> None:
    taken = await take(world.journal)
    await asyncio.wrap_future(taken.add([(QUESTION, "one")]))
    key = taken.key_of("c1")
    assert key is not None
    with world.blocked_journal():
        writing = taken.add([("ai", "two")])
        assert taken.key_of("c1") is None
        writing.cancel()
    await asyncio.wrap_future(taken.add([("tool", "three")]))
    assert taken.key_of("c1") == key
    taken.close()
    assert [message.body for message in (await take(world.journal)).messages] == ["one", "two", "three"]


async def test_one_of_the_same_name_has_other_keys(world: World) -> None:
    first = await take(world.journal)
    first.add([(QUESTION, "one")]).result()
    await asyncio.wrap_future(world.journal.run(lambda it: it.execute("DELETE FROM conversation") and None))
    first.close()
    second = await take(world.journal)
    assert first.key_of("c1") != second.key_of("c1")


async def test_old_ones_are_forgotten_apart_from_open_ones_and_the_newest(world: World) -> None:
    for number in range(25):
        taken = await take(world.journal, f"old-{number}")
        taken.add([(QUESTION, "{}"), (END, "{}")])
        taken.close()
    held = await take(world.journal, "held")
    held.add([(QUESTION, "{}"), (END, "{}")])
    leave_behind(world.path, QUESTION, "ai")
    await age(world, 29)
    await forget(world, Retention())
    assert len(await names(world)) == 27
    await age(world, 31)
    await forget(world, Retention())
    left = await names(world)
    assert len(left) < 27
    assert {"held", "dead"} <= set(left)
    assert len(left) >= 20
    rows = world.journal.run(
        lambda it: it.execute(
            "SELECT count(*) FROM message WHERE conversation NOT IN (SELECT id FROM conversation)"
        ).fetchone()[0]
    )
    assert await asyncio.wrap_future(rows) == 0


async def test_one_whose_process_died_between_two_turns_is_not_open(world: World, tmp_path: Path) -> None:
    leave_behind(world.path, QUESTION, END)
    Journal(world.path).close()
    assert not (await take(world.journal, "dead")).was_cut_off


async def test_ids_of_utterances_are_forgotten_after_a_day(world: World) -> None:
    def add(connection: sqlite3.Connection) -> None:
        for id, hours in (("old", 25), ("new", 23)):
            at = time_ns() // 1000 - hours * 3600 * 1_000_000
            connection.execute("INSERT INTO utterance (source, id, at) VALUES ('mqtt', ?, ?)", (id, at))

    await asyncio.wrap_future(world.journal.run(add))
    await forget(world, Retention())
    left = world.journal.run(lambda it: it.execute("SELECT id FROM utterance").fetchall())
    assert await asyncio.wrap_future(left) == [("new",)]
