"""Lets the output of others wait while a question stands on the terminal.

Calls that run beside the one that a person is asked about go on, and report on stderr. Their lines would break the
question apart, or end up behind what the person types.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class HeldOutput:
    """Writes at once, or later while it is held. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: list[Callable[[], object]] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is written inside comes after the end of the block, in its order."""
        with self._lock:
            self._waiting = []
        try:
            yield
        finally:
            with self._lock:
                waiting, self._waiting = self._waiting, None
                for write in waiting or ():
                    write()

    def write(self, write: Callable[[], object]) -> None:
        with self._lock:
            if self._waiting is None:
                write()
            else:
                self._waiting.append(write)


held_output = HeldOutput()
"""That of stderr, which a process has one of."""
