"""The current date and time in any IANA time zone. The handler behind `get_current_datetime`."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from toolrun.errors import ToolError
from toolrun.json import JSON
from toolrun.text import close_names


def current_datetime(timezone: str = "") -> JSON:
    """Now, in the named time zone or in the system's."""
    now = datetime.now().astimezone() if not timezone.strip() else datetime.now(_zone(timezone.strip()))
    return {
        "datetime": now.isoformat(timespec="seconds"),
        "date": now.strftime("%Y-%m-%d"),
        "time": now.strftime("%H:%M:%S"),
        "weekday": now.strftime("%A"),
        "timezone": timezone.strip() or now.tzname(),
        "utc_offset": now.strftime("%z"),
    }


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # ValueError: "../x"; OSError: a directory of the database
        known = sorted(available_timezones())
        # People write the city alone, or with a space.
        last = name.replace(" ", "_").rpartition("/")[2].lower()
        close = [zone for zone in known if zone.rpartition("/")[2].lower() == last]
        close = close or close_names(name, known)
        hint = f"did you mean {' or '.join(close[:3])}?" if close else "use an IANA name such as Europe/Berlin."
        raise ToolError(f"There is no time zone '{name:.80}'; {hint}") from None
