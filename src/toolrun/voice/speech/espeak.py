"""Speaks through the program espeak-ng: small and fast, with a synthetic voice."""

from __future__ import annotations

import shutil
from typing import Final

from toolrun.errors import SpeechError
from toolrun.voice.speech.audio_program import run_audio_program

MAX_CHARS: Final = 5_000
"""The rest of a longer text is not spoken: it would take more than five minutes."""
_TIMEOUT: Final = 30.0


class EspeakSpeaker:
    """A `Speaker`. `voice` is one of `espeak-ng --voices`, with a variant if wanted; `speed` is words a minute."""

    def __init__(self, voice: str = "en-us+f2", speed: int = 150, *, program: str = "espeak-ng") -> None:
        found = shutil.which(program)
        if found is None:
            raise SpeechError(
                f"Speaking needs the program {program}. Install it, on Debian with 'apt install espeak-ng'."
            )
        self._command = (found, "-v", voice, "-s", str(speed), "--stdin", "--stdout")

    async def speak(self, text: str) -> bytes:
        spoken = text[:MAX_CHARS].replace("\0", " ").strip()
        if not spoken:
            return b""
        return await run_audio_program(
            self._command,
            name="espeak-ng",
            stdin=spoken.encode("utf-8", "replace"),
            timeout=_TIMEOUT,
            hint="Does it have this voice? See 'espeak-ng --voices'.",
            needs_output=True,
        )
