"""How many functions of ours a call runs through: a figure that grows with every layer that somebody adds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_warm_call_runs_through_no_more_functions_than_we_promise() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "hops.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    targets = done.stdout.partition("## Targets")[2]
    assert [targets.count(f"| {path} |") for path in ("script worker", "MCP stdio", "HTTP in")] == [1, 1, 1]
    assert "| NO |" not in targets
