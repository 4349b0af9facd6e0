"""Runs a program that makes or plays sound. Its failures are `SpeechError`s."""

from __future__ import annotations

from collections.abc import Sequence

from toolrun.errors import SpeechError
from toolrun.processes.external_program import run_program

_MAX_SOUND = 64 << 20


async def run_audio_program(
    command: Sequence[str], *, name: str, timeout: float, hint: str, stdin: bytes = b"", needs_output: bool = False
) -> bytes:
    """The output of the program. `hint` ends the message about a failure; with `needs_output`, no output is one."""
    try:
        finished = await run_program(command, stdin=stdin, timeout=timeout, max_output=_MAX_SOUND)
    except TimeoutError:
        raise SpeechError(f"{name} did not finish within {timeout:g} s and was ended.") from None
    except OSError as error:
        raise SpeechError(f"{name} cannot be run: {error.strerror}.") from None
    if finished.code != 0 or (needs_output and not finished.output):
        raise SpeechError(f"{name} failed: {finished.complaint}. {hint}")
    return finished.output
