"""The microphone, through the package `sounddevice`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from toolrun.errors import SpeechError
from toolrun.voice.speech.speech_engine import RATE

_BLOCK_SAMPLES: Final = 1024
_MAX_QUEUED: Final = 500
"""Blocks, 32 s of sound. When more are waiting, the oldest are dropped."""


@asynccontextmanager
async def microphone(device: str | int | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
    """The endless sound of a microphone. `device` is its name or number; None: the system's default."""
    sounddevice = _sounddevice()
    loop = asyncio.get_running_loop()
    blocks: asyncio.Queue[bytes] = asyncio.Queue()

    def put(block: bytes) -> None:
        if blocks.qsize() >= _MAX_QUEUED:
            blocks.get_nowait()
        blocks.put_nowait(block)

    def on_sound(data: Any, frames: int, time: Any, status: Any) -> None:  # called in a thread of the sound library
        loop.call_soon_threadsafe(put, bytes(data))

    def open_stream() -> Any:
        stream = sounddevice.RawInputStream(
            samplerate=RATE, channels=1, dtype="int16", blocksize=_BLOCK_SAMPLES, device=device, callback=on_sound
        )
        stream.start()
        return stream

    try:
        stream = await asyncio.to_thread(open_stream)
    except (sounddevice.PortAudioError, ValueError) as error:
        which = f"'{device}'" if device is not None else "of this system"
        raise SpeechError(f"The microphone {which} cannot be used: {error}. Is one connected?") from None
    try:
        yield _endless(blocks)
    finally:
        await asyncio.to_thread(stream.close)


async def _endless(blocks: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await blocks.get()


def _sounddevice() -> Any:
    try:
        import sounddevice  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise SpeechError(
            "The microphone needs the package sounddevice. Install it with 'pip install sounddevice'."
        ) from None
    except OSError:
        raise SpeechError(
            "The microphone needs the library PortAudio. Install it, on Debian with 'apt install libportaudio2'."
        ) from None
    return sounddevice
