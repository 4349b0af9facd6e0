"""What a turn shows of its calls."""

from __future__ import annotations

import pytest

from toolrun.cli.turn import time_taken


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0.04, "0 ms"), (12.6, "13 ms"), (999.4, "999 ms"), (999.6, "1.0 s"), (6227.0, "6.2 s"), (65_000.0, "65.0 s")],
)
def test_a_call_of_a_second_or_more_is_shown_in_seconds(milliseconds: float, shown: str) -> None:
    assert time_taken(milliseconds) == shown
