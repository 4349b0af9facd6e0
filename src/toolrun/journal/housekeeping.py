"""What the writer does between batches: it deletes old calls step by step, and reports a disk that fills up."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from toolrun.journal.database import roll_back
from toolrun.journal.retention import Retention
from toolrun.logger import get_logger

logger = get_logger("toolrun.journal")

USUAL_PAUSE: Final = 60.0
"""Seconds between two looks."""
_STEP_PAUSE: Final = 0.01
MIN_FREE: Final = 32 * 1024 * 1024
"""Bytes that must be free on the disk: on a full one not even deleting works."""


def keep_house(connection: sqlite3.Connection, retention: Retention, path: Path) -> float:
    """One step of what is to be forgotten. Returns the seconds until the next one: few if there is more."""
    try:
        if retention.step(connection):
            return _STEP_PAUSE
        free = shutil.disk_usage(path.parent).free
        if free < MIN_FREE:
            logger.warning(
                "the disk with the journal %s is nearly full (%d MB are free). Make room, or set [journal] path to "
                "a file on another disk: on a full one calls are not recorded",
                path,
                free // 1_000_000,
            )
    except (sqlite3.Error, OSError) as error:
        with suppress(sqlite3.Error):
            roll_back(connection)
        logger.warning("old calls could not be removed from the journal %s: %s", path, error)
    return USUAL_PAUSE


def keep_house_at_end(connection: sqlite3.Connection | None, retention: Retention, path: Path) -> None:
    """Many programs are over in a second, and would leave it to others for ever."""
    try:
        if connection is not None and retention.is_due(connection):
            retention.step(connection)
    except sqlite3.Error as error:
        logger.warning("old calls could not be removed from the journal %s: %s", path, error)
