"""What is spoken, in which order, and when it falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from toolrun.errors import SpeechError
from toolrun.voice.announcer import Announcer
from toolrun.voice.voice_event import Answered, Heard, Outcome, Utterance, VoiceEvent

LIMIT = 20.0
SAID = Utterance("u1", "hello")


def answer(speech: str) -> VoiceEvent:
    return Answered(SAID, speech, speech)


class Room:
    """A speaker and a loudspeaker: what is played lasts until the test lets it end."""

    def __init__(self, *, has_barge_in: bool = False) -> None:
        self.played: list[str] = []
        self.cut: list[str] = []
        self.gate = asyncio.Event()
        self.news = asyncio.Event()
        self.announcer = Announcer(self, self.play, has_barge_in=has_barge_in)

    async def speak(self, text: str) -> bytes:
        if text == "unspeakable":
            raise SpeechError("there is no voice")
        return text.encode()

    async def play(self, wav: bytes) -> None:
        self.played.append(wav.decode())
        self.news.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cut.append(wav.decode())
            raise

    async def has_begun(self, text: str) -> None:
        async with asyncio.timeout(LIMIT):
            while text not in self.played:
                self.news.clear()
                await self.news.wait()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Announcer]:
        task = asyncio.create_task(self.announcer.run())
        try:
            yield self.announcer
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_answers_are_spoken_one_after_the_other() -> None:
    room = Room()
    async with room.open() as announcer:
        for text in ("one", "two"):
            announcer.on_event(answer(text))
        announcer.on_event(Heard(SAID))
        await room.has_begun("one")
        assert room.played == ["one"]
        was_speaking = announcer.is_speaking
        room.gate.set()
        async with asyncio.timeout(LIMIT):
            await announcer.finish()
        assert (was_speaking, announcer.is_speaking) == (True, False)
    assert (room.played, room.cut) == (["one", "two"], [])


async def test_where_nothing_is_to_be_said_nothing_is_played() -> None:
    room = Room()
    async with room.open() as announcer:
        announcer.on_event(Answered(SAID, "", "", Outcome.INTERRUPTED))
        async with asyncio.timeout(LIMIT):
            await announcer.finish()
    assert room.played == []


async def test_a_polite_one_falls_silent_when_somebody_speaks() -> None:
    room = Room(has_barge_in=True)
    async with room.open() as announcer:
        for text in ("one", "two"):
            announcer.on_event(answer(text))
        await room.has_begun("one")
        announcer.on_event(Heard(Utterance("u2", "")))
        assert announcer.is_speaking, "noise is no reason to stop"
        announcer.on_event(Heard(SAID))
        announcer.on_event(answer("three"))
        await room.has_begun("three")
    assert (room.played, room.cut) == (["one", "three"], ["one", "three"])


async def test_what_cannot_be_spoken_is_logged_and_the_next_one_is_spoken(caplog: pytest.LogCaptureFixture) -> None:
    room = Room()
    room.gate.set()
    async with room.open() as announcer:
        for text in ("unspeakable", "two"):
            announcer.on_event(answer(text))
        await room.has_begun("two")
    assert "an answer cannot be spoken: there is no voice" in caplog.text


async def test_its_end_is_the_end_of_the_sound() -> None:
    room = Room()
    async with room.open() as announcer:
        announcer.on_event(answer("one"))
        await room.has_begun("one")
    assert room.cut == ["one"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
