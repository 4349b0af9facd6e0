"""Plays WAV files through the player that the system has."""

from __future__ import annotations

import shutil
import tempfile
from typing import Final

from toolrun.errors import SpeechError
from toolrun.voice.speech.audio_program import run_audio_program

PLAYERS: Final = (("pw-play",), ("paplay",), ("aplay", "-q"), ("afplay",))
"""In order of preference. Each takes the path of a file."""
_TIMEOUT: Final = 600.0


def find_player() -> tuple[str, ...] | None:
    """The command that plays a file; None if no player is installed."""
    for program, *options in PLAYERS:
        found = shutil.which(program)
        if found is not None:
            return found, *options
    return None


async def play(wav: bytes, player: tuple[str, ...] | None = None) -> None:
    """Play the content of a WAV file to its end. Cancelling stops it at once. Raises SpeechError."""
    command = player or find_player()
    if command is None:
        names = ", ".join(program for program, *_ in PLAYERS)
        raise SpeechError(
            f"There is nothing to play sound with: none of {names} is installed. On Debian: 'apt install alsa-utils'."
        )
    if not wav:
        return
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:  # pw-play and afplay cannot read a pipe
        file.write(wav)
        file.flush()
        await run_audio_program(
            [*command, file.name],
            name=command[0],
            timeout=_TIMEOUT,
            hint="Is a sound server running for this user?",
        )
