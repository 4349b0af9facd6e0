"""Which utterances are new: by their ids, for a day, with a journal and without."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.journal_world import World
from toolrun.journal.conversation_row import open_conversation
from toolrun.journal.retention import Retention
from toolrun.voice.taken_utterances import TakenUtterances
from toolrun.voice.voice_event import Answered, Outcome, Utterance


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "journal.db")
    yield world
    await world.executor.close()
    world.journal.close()


def refused(id: str, outcome: Outcome = Outcome.REFUSED) -> Answered:
    return Answered(Utterance(id, "hello", "mqtt"), "", "", outcome)


async def test_an_id_is_taken_once_and_no_id_is_no_id() -> None:
    taken = TakenUtterances("mqtt")
    assert [await taken.claim(id) for id in ("a", "a", "b", "", "")] == [True, False, True, True, True]


async def test_an_id_is_forgotten_after_a_day() -> None:
    now = 0.0
    taken = TakenUtterances("mqtt", clock=lambda: now)
    assert await taken.claim("a")
    now = 24 * 3600 - 1
    assert not await taken.claim("a")
    now = 24 * 3600
    assert await taken.claim("a")


async def test_memory_is_bounded_and_the_oldest_are_forgotten_first() -> None:
    taken = TakenUtterances("mqtt")
    for number in range(10_001):
        assert await taken.claim(str(number))
    assert not await taken.claim("10000")
    assert await taken.claim("0")


async def test_an_utterance_for_which_there_was_no_room_may_come_again(world: World) -> None:
    for taken in (TakenUtterances("mqtt"), TakenUtterances("mqtt", world.journal)):
        assert await taken.claim("a")
        taken.on_event(refused("a"))
        assert await taken.claim("a")
        taken.on_event(refused("a", Outcome.FAILED))
        assert not await taken.claim("a")


async def test_who_shares_a_journal_and_a_source_shares_the_ids(world: World) -> None:
    mine, yours = TakenUtterances("mqtt", world.journal), TakenUtterances("mqtt", world.journal)
    other = TakenUtterances("mqtt elsewhere", world.journal)
    assert sorted(await asyncio.gather(mine.claim("a"), yours.claim("a"))) == [False, True]
    assert await other.claim("a")


async def test_any_text_can_be_an_id(world: World) -> None:
    taken = TakenUtterances("mqtt", world.journal)
    for id in ("\ud800", "\0", "a" * 8000, "'; DROP TABLE utterance"):
        assert await taken.claim(id)
        assert not await taken.claim(id)


async def test_an_utterance_is_answered_although_the_journal_cannot_be_written(tmp_path: Path) -> None:
    world = World(tmp_path / "journal.db")
    world.journal.close()
    taken = TakenUtterances("mqtt", world.journal)
    assert await taken.claim("a")
    assert not await taken.claim("a")
    await world.executor.close()


async def bury(world: World) -> None:
    """The process that has taken the utterances is dead."""

    def change(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE utterance SET process = 9999 WHERE process IS NOT NULL")

    await asyncio.wrap_future(world.journal.run(change))


async def test_an_utterance_of_a_dead_process_is_taken_again_and_goes_on_in_its_conversation(world: World) -> None:
    dead, mine, yours = (TakenUtterances("mqtt", world.journal) for _ in range(3))
    assert await dead.claim("a")
    assert not await mine.claim("a"), "its process lives"
    await bury(world)
    assert sorted(await asyncio.gather(mine.claim("a"), yours.claim("a"))) == [False, True]
    [conversation] = {mine.conversation_of("a"), yours.conversation_of("a")} - {""}
    assert conversation == dead.conversation_of("a")


async def test_an_utterance_that_was_answered_is_not_taken_again_whoever_is_dead(world: World) -> None:
    taken = TakenUtterances("mqtt", world.journal)
    assert await taken.claim("a")
    await taken.end("a")
    await taken.end("a")
    await taken.end("of no publisher")
    await bury(world)
    assert not await TakenUtterances("mqtt", world.journal).claim("a")


async def test_what_was_said_for_an_utterance_is_forgotten_when_it_is_answered_and_its_calls_stay_together(
    world: World,
) -> None:
    taken = TakenUtterances("mqtt", world.journal)
    for id in ("a", "b"):
        assert await taken.claim(id)
        conversation = await open_conversation(world.journal, taken.conversation_of(id), model="m")
        conversation.add([("question", "{}")])
        conversation.close()
    await taken.end("a")
    joined = "conversation LEFT JOIN message ON message.conversation = conversation.id"
    count = f"SELECT name, count(message.seq) FROM {joined} GROUP BY 1"
    found = dict(await asyncio.wrap_future(world.journal.run(lambda it: it.execute(count).fetchall())))
    assert len(found) == 2
    assert found[taken.conversation_of("b")] == 1
    assert sum(found.values()) == 1
    assert taken.conversation_of("a") == ""


async def test_an_id_that_comes_again_after_a_day_is_another_utterance(world: World) -> None:
    first, second = (TakenUtterances("mqtt", world.journal) for _ in range(2))
    await first.claim("a")
    conversation = await open_conversation(world.journal, first.conversation_of("a"), model="m")
    conversation.add([("question", "{}")])

    def pass_a_day(connection: sqlite3.Connection) -> None:
        for table in ("utterance SET at", "conversation SET process = 9999, updated_at"):
            connection.execute(f"UPDATE {table} = 0")

    await asyncio.wrap_future(world.journal.run(pass_a_day))
    with contextlib.closing(sqlite3.connect(world.path, isolation_level=None)) as writer:
        Retention().step(writer)
        owners = writer.execute("SELECT process FROM conversation").fetchall()
    assert owners == [(None,)], "nobody goes on with it, so it may be forgotten like any other"
    assert await second.claim("a")
    assert second.conversation_of("a") not in ("", first.conversation_of("a"))


async def test_without_stored_conversations_an_utterance_of_a_dead_process_is_not_taken_again(tmp_path: Path) -> None:
    world = World(tmp_path / "journal.db", keeps_conversations=False)
    first, second = (TakenUtterances("mqtt", world.journal) for _ in range(2))
    assert await first.claim("a")
    assert first.conversation_of("a") == ""
    await bury(world)
    assert not await second.claim("a"), "what was done about it is not known"
    await world.executor.close()
    world.journal.close()


async def test_a_refusal_is_forgotten_and_does_not_end_the_utterance_that_comes_again(world: World) -> None:
    taken = TakenUtterances("mqtt", world.journal)
    await taken.claim("a")
    before = taken.conversation_of("a")
    taken.on_event(refused("a"))
    assert taken.conversation_of("a") == ""
    assert await taken.claim("a")
    assert taken.conversation_of("a") not in ("", before)
