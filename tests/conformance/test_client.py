"""toolrun as a client under the official conformance suite, both eras."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conformance import suite
from conformance.test_server import RUNS, applicable, judge

HERE = Path(__file__).parent
COMMAND = f"{sys.executable} {HERE / 'client.py'}"


@pytest.mark.parametrize(("version", "revision"), RUNS)
def test_every_scenario_that_applies_passes(version: str, revision: str | None, tmp_path: Path) -> None:
    names = [name for name in suite.scenarios(version, "client", revision) if name in applicable("client")]
    assert len(names) > 2
    output = suite.run_side_by_side(
        [
            (version, "client", "--command", COMMAND, "--scenario", name, "-o", str(tmp_path))
            + (("--spec-version", revision) if revision else ())
            for name in names
        ]
    )
    judge(list(suite.checks(tmp_path, "client", names)), "client", names, output)
