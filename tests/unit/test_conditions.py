"""Under which conditions the tests hold: on busy machines, and where SIGINT is ignored when they start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import hypothesis

ROOT = Path(__file__).parents[2]
IGNORING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
"""


def test_property_tests_do_not_fail_because_a_machine_is_busy() -> None:
    current = hypothesis.settings()
    assert current.deadline is None
    assert hypothesis.HealthCheck.too_slow in current.suppress_health_check


def test_interrupts_reach_the_tests_also_where_they_are_ignored_at_the_start() -> None:
    interrupted = "tests/unit/cli/test_interrupt.py::test_the_first_signal_cancels_and_the_next_ones_repeat"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-c", IGNORING, interrupted, *options], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
