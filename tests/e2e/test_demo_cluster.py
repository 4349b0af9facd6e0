"""`script/demo cluster --check`, as somebody runs it who wants to see a machine die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("ray")


@pytest.mark.real_time  # two more machines start for it, beside those of the other tests
@pytest.mark.timeout(300)
def test_the_demo_shows_a_machine_that_is_lost_and_all_calls_answered() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "cluster" / "demo.py", "--check"],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "calls were answered, each with its own number." in done.stdout
