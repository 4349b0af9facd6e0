"""The loudspeaker: plays a WAV file through whichever player the system has."""

from __future__ import annotations

import shutil
import tempfile
from typing import Final

from toolrun.errors import SpeechError
from toolrun.processes.external_program import run_program

PLAYERS: Final = (("pw-play",), ("paplay",), ("aplay", "-q"), ("afplay",))
"""In this order. Each is given the path of a file."""
_TIMEOUT: Final = 600.0


def find_player() -> tuple[str, ...] | None:
    """The command that plays a file, or None: then there is no way to be heard."""
    for program, *options in PLAYERS:
        found = shutil.which(program)
        if found is not None:
            return found, *options
    return None


async def play(wav: bytes, player: tuple[str, ...] | None = None) -> None:
    """Play the content of a WAV file until its end. Cancelling stops it at once. SpeechError: it cannot be played."""
    command = player or find_player()
    if command is None:
        names = ", ".join(program for program, *_ in PLAYERS)
        raise SpeechError(
            f"There is nothing to play sound with: none of {names} is installed. On Debian: 'apt install alsa-utils'."
        )
    if not wav:
        return
    try:
        with tempfile.NamedTemporaryFile(suffix=".wav") as file:  # pw-play and afplay cannot read a pipe
            file.write(wav)
            file.flush()
            done = await run_program([*command, file.name], timeout=_TIMEOUT)
    except TimeoutError:
        raise SpeechError(f"{command[0]} did not finish within {_TIMEOUT:g} s and was ended.") from None
    except OSError as error:
        raise SpeechError(f"{command[0]} cannot be run: {error.strerror}.") from None
    if done.code != 0:
        raise SpeechError(f"{command[0]} cannot play: {done.complaint}. Is a sound server running for this user?")
