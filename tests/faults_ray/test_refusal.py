"""A cluster that lets in whoever can reach it: used only by those who say so in so many words."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import Machines

from support.ray_cluster import needs_machines, wait_until
from toolrun import Runtime

pytestmark = pytest.mark.xdist_group("ray")
ADDRESS = "10.78.0.1"
SCRIPT = '# /// script\n# dependencies = []\n# ///\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'


@pytest.fixture
def open_cluster() -> Iterator[Machines]:
    """One node of Ray as it starts by itself: without a token, and without TLS."""
    needs_machines()
    folder = Path(tempfile.mkdtemp(prefix="tray", dir="/tmp"))  # sockets have short paths
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    plain["RAY_USAGE_STATS_ENABLED"] = "0"
    options = ["--head", "--port=6379", "--num-cpus=1", "--include-dashboard=false", "--object-store-memory=80000000"]
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={ADDRESS}", *options]
    log = folder / "log"
    try:
        with Machines({"open": ADDRESS}) as machines:
            machines.start("open", [*start, f"--temp-dir={folder}"], plain, log)
            wait_until(lambda: "Ray runtime started" in log.read_text(), 120.0)
            yield machines
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_cluster_that_asks_for_no_token_is_refused_unless_the_configuration_allows_it(
    open_cluster: Machines, tmp_path: Path
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "add.py").write_text(SCRIPT)
    path = tmp_path / "toolrun.toml"
    settings = f'[journal]\nenabled = false\n[workers]\nengine = "ray"\naddress = "{ADDRESS}:6379"\ncache = "cache"\n'
    with open_cluster.entered("open"):
        path.write_text(settings)
        async with Runtime.open(path) as runtime:
            [problem] = runtime.problems
            assert "lets in whoever can reach it: it asks for no token" in problem.message
            assert "allow_cluster_without_token = true" in problem.message
            assert "add" not in runtime.manager
        path.write_text(f"{settings}allow_cluster_without_token = true\n")
        async with Runtime.open(path) as runtime:
            assert not runtime.problems
            result = await runtime.executor.execute("add", {"a": 1, "b": 2}, timeout=60)
            assert result.result == 3, result.text
