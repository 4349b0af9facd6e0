"""`script/demo cluster --check`, as somebody runs it who wants to see a machine die."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolrun import Runtime

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


async def test_its_tool_answers_on_one_machine_too(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "cluster"
    shutil.copytree(demo / "tools", tmp_path / "tools")
    settings = (demo / "toolrun.toml").read_text()
    assert 'engine = "ray"' in settings
    (tmp_path / "toolrun.toml").write_text(settings.replace('engine = "ray"', 'engine = "local"'))
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        result = await runtime.executor.execute("counting", {"number": 21})
    assert isinstance(result.result, dict), result.text
    assert result.result["number"] == 42
