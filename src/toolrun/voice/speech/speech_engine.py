"""The Protocols of speech engines, and the path from a stream of sound to sentences.

Sound is PCM throughout: 16,000 samples a second, one channel, 16 bits, little-endian. Each engine is one module, which
is imported on first use:

    sphinx      recognises the commands of a grammar, offline
    whisper     recognises free speech, with a model
    espeak      speaks through the program espeak-ng
    piper       speaks with a neural voice
    segment     splits sound into utterances
    wav         reads WAV files
    microphone  records
    player      plays
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
    """Turns sound into words."""

    def hear(self, pcm: bytes) -> str:
        """The words of one utterance; empty if it is not understood. Blocks: call it in a thread."""
        ...


class Speaker(Protocol):
    """Turns words into sound."""

    async def speak(self, text: str) -> bytes:
        """The text as the content of a WAV file. Cancelling stops the engine. Raises SpeechError."""
        ...


async def sentences(
    sound: AsyncIterable[bytes], segments: Segments, recogniser: Recogniser
) -> AsyncGenerator[str, None]:
    """The utterances in a stream of sound, one after the other; those that are not understood are empty.

    The sound may come in pieces of any length. All work is done in threads.
    """
    async for piece in sound:
        for utterance in await asyncio.to_thread(segments.add, piece):
            yield await asyncio.to_thread(recogniser.hear, utterance)
    for utterance in segments.end():
        yield await asyncio.to_thread(recogniser.hear, utterance)
