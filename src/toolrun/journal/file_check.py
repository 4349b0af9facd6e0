"""Checks that the file of a journal is whole after a program that used it was killed.

In a thread, with a connection of its own that only reads: nobody waits for it. It takes a second for 300 MB.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Final

from toolrun.journal.database import connect_to_check, is_damage
from toolrun.logger import get_logger

logger = get_logger("toolrun.journal")

_LIMIT: Final = 60.0
"""Seconds after which it is given up. The next program tries again."""
_STEPS: Final = 10_000
"""Steps of SQLite between two looks at the time."""


class FileCheck:
    """One look, which begins at once."""

    def __init__(self, path: Path, on_end: Callable[[str | None], None]) -> None:
        """`on_end` is told in the thread what is wrong, or None; it is not told of a look that was given up."""
        self._path = path
        self._on_end = on_end
        self._give_up = monotonic() + _LIMIT
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="toolrun-journal-check", daemon=True)
        self._thread.start()

    def stop(self, grace: float = 0.0) -> None:
        """It has so many seconds left. Then its connection is closed."""
        self._thread.join(grace)
        self._is_stopped = True
        self._thread.join()

    def _run(self) -> None:
        try:
            with closing(connect_to_check(self._path)) as connection:
                connection.set_progress_handler(self._is_over, _STEPS)
                found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0].splitlines()[-1]
        except sqlite3.Error as error:
            if not is_damage(error):
                logger.debug("the journal %s was not checked: %s", self._path, error)
                return
            found = str(error)
        self._on_end(None if found == "ok" else found)

    def _is_over(self) -> bool:
        return self._is_stopped or monotonic() > self._give_up
