"""Reads a line from the terminal on the event loop, so that whoever waits for it can be cancelled.

`input()` in a thread would not do: a read that nobody waits for any more takes the next line, which is for somebody
else. Here nothing is read before there is a line, and the terminal itself lets the user edit it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from typing import Final

_LONGEST: Final = 65_536
"""Bytes. A terminal gives one line at a time, and its lines are shorter."""


def is_interactive() -> bool:
    """Whether a person can be asked on stderr and answer on stdin."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


async def read_line(descriptor: int) -> str | None:
    """The next line without its end; None at Ctrl-D, or if the terminal has gone."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    try:
        line = os.read(descriptor, _LONGEST)
    except OSError:
        return None
    return line.decode(errors="replace").rstrip("\r\n") if line else None


def discard_typed(descriptor: int) -> None:
    """Forget what was typed and not read: it was meant for something else."""
    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)
