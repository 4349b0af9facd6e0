"""Speaks with a neural voice: the package piper-tts, which no extra installs, and a voice file."""

from __future__ import annotations

import asyncio
import io
import wave
from pathlib import Path
from typing import Any

from toolrun.errors import SpeechError


class PiperSpeaker:
    """A `Speaker`. The constructor takes a second: call it in a thread."""

    def __init__(self, voice: Path) -> None:
        """`voice` is the `.onnx` file; its `.onnx.json` must be beside it."""
        try:
            from piper import PiperVoice  # type: ignore[import-not-found]  # users install it
        except ImportError:
            raise SpeechError(
                "Speaking with piper needs the package piper-tts. Install it with 'pip install piper-tts', or speak "
                "with espeak-ng."
            ) from None
        if not voice.is_file():
            raise SpeechError(f"There is no voice at {voice}. Download one with 'python -m piper.download_voices'.")
        self._voice: Any = PiperVoice.load(str(voice))

    async def speak(self, text: str) -> bytes:
        return await asyncio.to_thread(self._synthesise, text) if text.strip() else b""

    def _synthesise(self, text: str) -> bytes:
        content = io.BytesIO()
        with wave.open(content, "wb") as file:
            self._voice.synthesize_wav(text, file)
        return content.getvalue()
