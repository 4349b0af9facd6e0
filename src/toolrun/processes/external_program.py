"""Runs a small system program to its end: with a timeout, killed with its descendants, off the event loop.

Input and output are temporary files, not pipes: nobody has to read while the program runs, and a process that it leaves
behind cannot delay the result by holding a pipe open. Knows nothing of mixers, players and voices.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, Any, Final

from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import describe_exit

_SESSION: Final = re.compile(r"(?:XDG|DBUS|PULSE|PIPEWIRE|ALSA|JACK|ESPEAK)_\w+|AUDIODEV|DISPLAY|USER|LOGNAME|TMPDIR")
"""Where a program finds the user's session and its sound server."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int
    """Its exit code; negative for a signal."""
    output: bytes
    errors: str

    @property
    def complaint(self) -> str:
        """Its last line on stderr, or how it ended."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        return lines[-1][:200] if lines else f"it {describe_exit(self.code)}"


async def run_program(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float,
    variables: Mapping[str, str] | None = None,
    max_output: int = 1 << 20,
) -> Finished:
    """Run a program and wait for its end. A timeout or a cancellation kills its whole process group.

    It gets the variables that every program needs, those of the user's session, and `variables`. Raises TimeoutError,
    and OSError if the program cannot be started.
    """
    with ExitStack() as files:
        given, output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *command,
                stdin=given,
                stdout=output,
                stderr=errors,
                env=child_environment(os.environ, _is_of_session) | dict(variables or {}),
                start_new_session=True,
            )
        )
        try:
            async with asyncio.timeout(timeout):
                # A cancelled start would kill the program alone, and not what it has started by then.
                process = await asyncio.shield(starting)
                code = await process.wait()
        finally:
            await _to_its_end(_end(starting))
        return Finished(code, _content(output, max_output), _content(errors, 1 << 16).decode("utf-8", "replace"))


def _is_of_session(name: str) -> bool:
    return _SESSION.fullmatch(name) is not None


async def _end(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    process = await starting
    if process.returncode is None:  # not reaped yet, so the group id is still its own
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await something short even if a second cancellation comes, as at the end of the program."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _content(file: IO[bytes], limit: int) -> bytes:
    file.seek(0)
    return file.read(limit)
