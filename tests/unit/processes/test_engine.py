"""What the seam between pools and processes says about an end."""

from __future__ import annotations

import pytest

from toolrun.processes.engine import Exit


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "ended"),
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-50, "was killed by signal 50"),
    ],
)
def test_an_exit_says_how_it_came_about(code: int | None, words: str) -> None:
    assert Exit(code, "").describe() == words
