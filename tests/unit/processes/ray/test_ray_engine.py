"""An engine that cannot be had says which setting is missing or wrong (for packages see unit/test_extra.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.direct_cluster import DirectCluster
from toolrun import Runtime
from toolrun.errors import ConfigError
from toolrun.processes.ray.cluster_client import ClusterSettings
from toolrun.processes.ray.ray_engine import RayEngine

SCRIPT = '# /// script\n# dependencies = []\n# ///\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'


async def test_without_an_address_the_setting_and_the_variable_are_named() -> None:
    with pytest.raises(ConfigError, match=r'set address = "HOST:6379", or RAY_ADDRESS'):
        RayEngine(ClusterSettings(""), os.environ, DirectCluster)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", ":6379", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:٣", "auto", "ray://a:1"],
)
async def test_an_address_that_cannot_be_one_is_refused_before_anything_starts(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT") as error:
        RayEngine(ClusterSettings(address), os.environ, DirectCluster)
    assert repr(address) in str(error.value)


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "head.example:1", "[fd00::1]:65535"])
async def test_an_address_that_can_be_one_is_taken(address: str) -> None:
    engine = RayEngine(ClusterSettings(address), os.environ, DirectCluster)
    await engine.close()


async def test_a_tool_of_a_cluster_that_cannot_be_had_is_a_problem_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "tools").mkdir()
    for name in ("here", "there"):
        (tmp_path / "tools" / f"{name}.py").write_text(SCRIPT.replace("add", name))
    path = tmp_path / "toolrun.toml"
    path.write_text('[workers]\ncache = "cache"\n[journal]\nenabled = false\n[tool.there]\nengine = "ray"\n')
    async with Runtime.open(path) as runtime:
        [problem] = runtime.problems
        assert "set address" in problem.message
        result = await runtime.executor.execute("here", {"a": 1, "b": 2}, timeout=60)
        assert result.result == 3, result.text
