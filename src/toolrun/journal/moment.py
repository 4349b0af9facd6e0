"""Points in time as people write them: `10m` ago, `14:30` today, `2026-11-16`, or any ISO 8601 time. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)")
_UNITS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_moment(text: str) -> int:
    """In microseconds since 1970. Raises ValueError, which says what can be written."""
    text, now = text.strip(), datetime.now().astimezone()
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            moment = now - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        elif re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            moment = datetime.fromisoformat(f"{now.date()}T{text.zfill(5)}").astimezone()
        else:
            moment = _of_a_zone(datetime.fromisoformat(text))
        return int(moment.timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write 10m, 2h, 3d, 14:30, 2026-11-16 or 2026-11-16T14:30") from None


def _of_a_zone(moment: datetime) -> datetime:
    """Of this place, unless it says so. The first and the last day of the calendar are in no other zone than UTC."""
    if moment.tzinfo is not None:
        return moment
    try:
        return moment.astimezone()
    except (ValueError, OverflowError):
        return moment.replace(tzinfo=UTC)
