"""Keeps apart what several writers show on one terminal: a question, the status line, and the lines of everybody else.

Calls that run beside the one that a person is asked about go on, and report on stderr. Their lines would break the
question apart, or end up behind what the person types, so they wait. The status line stands below everything else: it
goes away before something is written, and comes back below that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

CLEAR: Final = "\x1b[2K\r"
"""Empties the line, and goes to its start."""
_STDERR: Final = 2


class HeldOutput:
    """Writes at once, or later while it is held. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: list[Callable[[], object]] | None = None
        self._status: TextIO | None = None
        """Where a status line stands at the moment."""
        self._is_mid_line = False
        """Whether somebody has written a part of a line: the status line must not stand behind it."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is written inside comes after the end of the block, in its order."""
        with self._lock:
            self._hide_status()
            self._waiting = []
        try:
            yield
        finally:
            with self._lock:
                waiting, self._waiting = self._waiting, None
                self._is_mid_line = False  # whoever has answered has pressed Enter
                for write in waiting or ():
                    write()

    def write(self, write: Callable[[], object]) -> None:
        """Write whole lines."""
        with self._lock:
            if self._waiting is None:
                self._hide_status()
                write()
                self._is_mid_line = False
            else:
                self._waiting.append(write)

    @contextmanager
    def above_status(self, text: str) -> Iterator[None]:
        """What is written inside is this text, and stands where the status line was."""
        with self._lock:
            self._hide_status()
            yield
            if text:
                self._is_mid_line = not text.endswith("\n")

    def show_status(self, line: str, stream: TextIO) -> None:
        """Show this status line instead of the one before, unless a question or a part of a line stands there."""
        with self._lock:
            if self._waiting is None and not self._is_mid_line:
                self._status = stream
                _put(stream, f"{CLEAR}{line}")

    def hide_status(self) -> None:
        with self._lock:
            self._hide_status()

    def drop_status(self) -> None:
        """Hide it where no lock may be waited for: in a signal handler, before the process ends."""
        if self._status is not None:
            with suppress(OSError):
                os.write(_STDERR, f"{CLEAR}\x1b[K".encode())

    def _hide_status(self) -> None:
        if self._status is not None:
            _put(self._status, f"{CLEAR}\x1b[K")
            self._status = None


def _put(stream: TextIO, text: str) -> None:
    with suppress(OSError, ValueError):  # the terminal has gone
        stream.write(text)
        stream.flush()


held_output = HeldOutput()
"""That of stderr, which a process has one of."""
