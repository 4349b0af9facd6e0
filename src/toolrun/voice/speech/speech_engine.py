"""Speech in and out: what hears, what speaks, and the way from a stream of sound to sentences.

Sound is PCM throughout: 16,000 samples a second, one channel, 16 bits, little-endian. Each engine is a module of its
own, imported when it is made:

    sphinx      hears commands out of a grammar, offline
    whisper     hears anything, with a model
    espeak      speaks through the program espeak-ng
    piper       speaks with a neural voice
    segment     finds where somebody speaks
    wav         files
    microphone  the microphone
    player      the loudspeaker
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from toolrun.voice.speech.segment import Segments

RATE: Final = 16_000
"""Samples a second."""
WIDTH: Final = 2
"""Bytes a sample."""


class Recogniser(Protocol):
    """What turns sound into words."""

    def hear(self, pcm: bytes) -> str:
        """The words of one utterance; empty if there are none that it knows. Blocks: call it in a thread."""
        ...


class Speaker(Protocol):
    """What turns words into sound."""

    async def speak(self, text: str) -> bytes:
        """The text as the content of a WAV file. Cancelling ends whatever makes it. SpeechError: it cannot be made."""
        ...


async def sentences(
    sound: AsyncIterable[bytes], segments: Segments, recogniser: Recogniser
) -> AsyncGenerator[str, None]:
    """What is said in a stream of sound, one utterance after the other; those that are not understood are empty.

    The sound may come in pieces of any length. Nothing of it is worked on in the event loop.
    """
    async for piece in sound:
        for utterance in await asyncio.to_thread(segments.add, piece):
            yield await asyncio.to_thread(recogniser.hear, utterance)
    for utterance in segments.end():
        yield await asyncio.to_thread(recogniser.hear, utterance)
