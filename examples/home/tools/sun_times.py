# /// script
# requires-python = ">=3.11"
# dependencies = ["astral>=3.2,<4", "tzdata"]
#
# [tool.toolrun]
# timeout = 10             # seconds; then the process is killed
# effects = "none"
# ///
"""When the sun rises and sets at the house: a script. It has a package of its own, and runs in a process of its own."""

import datetime
from zoneinfo import ZoneInfo

from astral import Observer
from astral.sun import sunrise, sunset
from toolrun_sdk import config


def sun_times(day: datetime.date | None = None) -> dict[str, str]:
    """Tell when the sun rises and sets at the house.

    Args:
        day: The day, as 2026-06-21; today if it is left out.
    """
    zone = ZoneInfo(config["timezone"])
    day = day or datetime.datetime.now(zone).date()
    place = Observer(config["latitude"], config["longitude"])
    up, down = (when(place, day, tzinfo=zone) for when in (sunrise, sunset))
    return {"day": day.isoformat(), "sunrise": f"{up:%H:%M}", "sunset": f"{down:%H:%M}"}
