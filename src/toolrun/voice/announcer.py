"""Speaks the answers, one after the other; a newer utterance may cut it short. Knows no engine and no player."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from toolrun.errors import SpeechError
from toolrun.voice.speech.speech_engine import Speaker
from toolrun.voice.voice_event import Answered, Heard, VoiceEvent

logger = logging.getLogger("toolrun.voice")


class Announcer:
    """What is between the answers and a loudspeaker. Belongs to one event loop."""

    def __init__(self, speaker: Speaker, play: Callable[[bytes], Awaitable[None]], *, is_polite: bool) -> None:
        """`play` returns when the sound is over. `is_polite`: falls silent when somebody speaks."""
        self._speaker = speaker
        self._play = play
        self._is_polite = is_polite
        self._waiting: deque[str] = deque()
        self._speaking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def is_speaking(self) -> bool:
        """Whether something is being said, or about to be."""
        return bool(self._waiting) or self._speaking is not None

    def tell(self, event: VoiceEvent) -> None:
        """A `Listener`."""
        if isinstance(event, Answered) and event.speech:
            self._waiting.append(event.speech)
        elif isinstance(event, Heard) and self._is_polite and event.utterance.text:
            self._waiting.clear()
            if self._speaking is not None:
                self._speaking.cancel()
        self._announce()

    async def run(self) -> None:
        """Speak until this is cancelled. What cannot be spoken is logged."""
        while True:
            while not self._waiting:
                await self._news.wait()
            self._speaking = asyncio.create_task(self._say(self._waiting.popleft()))
            try:
                await asyncio.wait({self._speaking})
            finally:
                speaking, self._speaking = self._speaking, None
                speaking.cancel()
                await asyncio.wait({speaking})
                self._announce()
            if not speaking.cancelled():
                speaking.result()

    async def finish(self) -> None:
        """Wait until everything is said."""
        while self.is_speaking:
            await self._news.wait()

    async def _say(self, text: str) -> None:
        try:
            await self._play(await self._speaker.speak(text))
        except SpeechError as error:
            logger.error("an answer is not spoken: %s", error)

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
