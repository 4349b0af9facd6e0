"""Speaks through the program espeak-ng: small, quick, and not beautiful."""

from __future__ import annotations

import shutil
from typing import Final

from toolrun.errors import SpeechError
from toolrun.processes.external_program import run_program

MAX_CHARS: Final = 5_000
"""What is beyond is not spoken: nobody listens for five minutes."""
_TIMEOUT: Final = 30.0
_MAX_SOUND: Final = 64 << 20


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
        said = text[:MAX_CHARS].replace("\0", " ").strip()
        if not said:
            return b""
        try:
            done = await run_program(
                self._command, stdin=said.encode("utf-8", "replace"), timeout=_TIMEOUT, max_output=_MAX_SOUND
            )
        except TimeoutError:
            raise SpeechError(f"espeak-ng did not finish within {_TIMEOUT:g} s and was ended.") from None
        except OSError as error:
            raise SpeechError(f"espeak-ng cannot be run: {error.strerror}.") from None
        if done.code != 0 or not done.output:
            raise SpeechError(f"espeak-ng failed: {done.complaint}. Does it have this voice? See 'espeak-ng --voices'.")
        return done.output
