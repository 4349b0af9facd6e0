"""The soak in short: calls with faults from several loops, threads and a forked child, none lost or crossed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_calls_from_loops_threads_and_a_fork_are_all_answered_once() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "load.py", "600"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "| calls lost | 0 | ≤ 0 | yes |" in done.stdout, done.stdout + done.stderr
    assert "| answers that are wrong, doubled or crossed | 0 | ≤ 0 | yes |" in done.stdout
    assert "| forked child that had no right answers | 0 | ≤ 0 | yes |" in done.stdout
    assert "| file descriptors left | 0 | ≤ 0 | yes |" in done.stdout
