"""The soak in short: calls with faults from several loops, threads and a forked child, none lost or crossed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_calls_from_loops_threads_and_a_fork_are_all_answered_once() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "load.py", "3000"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    for fault in (
        "calls without an answer",
        "calls whose tool did not run",
        "calls answered or run twice",
        "answers that are wrong or crossed",
        "calls and threads that hung",
        "forked children that were wrong",
        "processes left",
        "file descriptors left",
    ):
        assert f"| {fault} | 0 | ≤ 0 | yes |" in done.stdout, done.stdout + done.stderr
