"""The current date and time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from toolrun.builtins.clock import current_datetime
from toolrun.errors import ToolError


def now_in(timezone: str) -> dict[str, Any]:
    found = current_datetime(timezone)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("timezone", ["Europe/Berlin", "Asia/Kolkata", "UTC", " America/New_York ", ""])
def test_the_parts_say_the_same_moment(timezone: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    found = now_in(timezone)
    moment = datetime.fromisoformat(found["datetime"])
    assert before <= moment <= datetime.now(UTC)
    assert (found["date"], found["time"]) == (f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}")
    assert found["weekday"] == f"{moment:%A}"
    assert found["utc_offset"] == f"{moment:%z}"
    assert list(found) == ["datetime", "date", "time", "weekday", "timezone", "utc_offset"]


def test_the_zone_is_the_one_that_was_asked_for() -> None:
    india = now_in("Asia/Kolkata")
    assert (india["timezone"], india["utc_offset"]) == ("Asia/Kolkata", "+0530")
    assert datetime.fromisoformat(india["datetime"]).utcoffset() == timedelta(hours=5, minutes=30)
    assert now_in(" UTC ")["timezone"] == "UTC"
    assert re.fullmatch(r"[+-]\d{4}", now_in("")["utc_offset"])
    assert now_in("")["timezone"], "the system's own has a name, too"


@pytest.mark.parametrize(
    ("timezone", "hint"),
    [
        ("Berlin", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York"),
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("Mars/Olympus Mons (the very far side of it)", "use an IANA name such as Europe/Berlin."),
        ("Europe", "There is no time zone 'Europe'"),
        ("../../etc/passwd", "There is no time zone '../../etc/passwd'"),
        ("/etc/passwd", "There is no time zone '/etc/passwd'"),
        ("a\x00b", "There is no time zone"),
        ("x" * 5000, "There is no time zone"),
    ],
)
def test_a_zone_that_does_not_exist_is_answered_with_one_that_does(timezone: str, hint: str) -> None:
    with pytest.raises(ToolError) as caught:
        current_datetime(timezone)
    assert hint in str(caught.value)
    assert len(str(caught.value)) < 300
