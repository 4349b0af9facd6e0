"""Speaks the answers one after the other; with barge-in, a new utterance stops it. Knows no engine and no player."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from toolrun.errors import SpeechError
from toolrun.logger import get_logger
from toolrun.voice.change_signal import ChangeSignal
from toolrun.voice.speech.speech_engine import Speaker
from toolrun.voice.voice_event import Answered, Heard, VoiceEvent

logger = get_logger("toolrun.voice")


class Announcer:
    """A queue of answers and the task that speaks them. For the event loop of `run`."""

    def __init__(self, speaker: Speaker, play: Callable[[bytes], Awaitable[None]], *, has_barge_in: bool) -> None:
        """`play` returns when the sound is over. `has_barge_in`: a new utterance stops the announcer."""
        self._speaker = speaker
        self._play = play
        self._has_barge_in = has_barge_in
        self._waiting: deque[str] = deque()
        self._speaking: asyncio.Task[None] | None = None
        self._changed = ChangeSignal()

    @property
    def is_speaking(self) -> bool:
        """Whether an answer is being spoken or waits to be."""
        return bool(self._waiting) or self._speaking is not None

    def on_event(self, event: VoiceEvent) -> None:
        """Queue an answer, or stop for a new utterance. A `Listener`."""
        if isinstance(event, Answered) and event.speech:
            self._waiting.append(event.speech)
        elif isinstance(event, Heard) and self._has_barge_in and event.utterance.text:
            self._waiting.clear()
            if self._speaking is not None:
                self._speaking.cancel()
        self._changed.notify()

    async def run(self) -> None:
        """Speak until this is cancelled. Failures are logged."""
        while True:
            while not self._waiting:
                await self._changed.wait()
            self._speaking = asyncio.create_task(self._say(self._waiting.popleft()))
            try:
                await asyncio.wait({self._speaking})
            finally:
                speaking, self._speaking = self._speaking, None
                speaking.cancel()
                await asyncio.wait({speaking})
                self._changed.notify()
            if not speaking.cancelled():
                speaking.result()

    async def finish(self) -> None:
        """Wait until all answers are spoken."""
        while self.is_speaking:
            await self._changed.wait()

    async def _say(self, text: str) -> None:
        try:
            await self._play(await self._speaker.speak(text))
        except SpeechError as error:
            logger.error("an answer cannot be spoken: %s", error)
