"""`toolrun doctor`, with the commands that made the cluster, on a real one; and who is not let in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ray_cluster import RayCluster
from toolrun.cluster.credentials import make_head_credentials
from toolrun.cluster.ray_start import ray_variables

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray")]


def doctor(cluster: RayCluster, project: Path, variables: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The checks of the cluster, by status."""
    (project / "toolrun.toml").write_text(
        '[workers]\nengine = "ray"\n\n[tool.large]\nresources = { CPU = 64 }\n[journal]\nenabled = false\n'
    )
    done = subprocess.run(
        cluster.command(sys.executable, "-m", "toolrun", "doctor", "--json"),
        env=variables,
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "InvalidAuthToken" not in done.stderr, "the wrong token that is tried is nobody's business"
    found: dict[str, list[dict[str, Any]]] = {"ok": [], "problem": []}
    for check in json.loads(done.stdout)["checks"]:
        if check["subject"] == "cluster":
            found[check["status"]].append(check)
    return found


def test_doctor_finds_all_well_and_a_tool_that_fits_nowhere(ray_cluster: RayCluster, tmp_path: Path) -> None:
    found = doctor(ray_cluster, tmp_path, ray_cluster.variables())
    messages = [it["message"] for it in found["ok"]]
    assert f"{ray_cluster.address} answers with TLSv1.3" in messages
    assert "the token is accepted, and a wrong one is refused" in messages
    assert [it.split()[0] for it in messages if "as on the cluster" in it] == ["Python", "Ray"]
    nodes = next(it for it in messages if " node" in it)
    assert all(f"{ray_cluster.address_of(name)} (CPU 2)" in nodes for name in ray_cluster.machines)
    assert [it["message"] for it in found["problem"]] == ["large needs CPU 64 on one node, and no node has that"]


def test_doctor_names_a_token_that_is_wrong(ray_cluster: RayCluster, tmp_path: Path) -> None:
    variables = ray_cluster.variables()
    del variables["RAY_AUTH_TOKEN_PATH"]
    [problem] = doctor(ray_cluster, tmp_path, {**variables, "RAY_AUTH_TOKEN": "f" * 64})["problem"]
    assert "refuses this program's token" in problem["message"]


def test_a_machine_of_another_cluster_is_not_let_in(ray_cluster: RayCluster, tmp_path: Path) -> None:
    """Neither with its own certificate and the right token, nor without TLS."""
    stranger = make_head_credentials(tmp_path / "stranger", ray_cluster.address.rpartition(":")[0])
    stranger.token.write_bytes(ray_cluster.credentials["head"].token.read_bytes())
    [problem] = doctor(ray_cluster, tmp_path, {**ray_cluster.variables(), **ray_variables(stranger)})["problem"]
    assert "is not one of this cluster" in problem["message"]
    plain = {name: value for name, value in ray_cluster.variables().items() if "TLS" not in name}
    [problem] = doctor(ray_cluster, tmp_path, plain)["problem"]
    assert "requires TLS, and this program does not use it" in problem["message"]


def test_the_token_is_in_no_command_line_and_no_environment(ray_cluster: RayCluster) -> None:
    token = ray_cluster.credentials["head"].token.read_bytes()
    for name in ray_cluster.machines:
        seen = ray_cluster.processes(name)
        assert len(seen) > 3
        for it in seen:
            for part in ("cmdline", "environ"):
                try:
                    content = Path(f"/proc/{it.pid}/{part}").read_bytes()
                except OSError:
                    continue
                assert token not in content, (it.command, part)
    assert token.decode() not in "".join(f"{key}={value}" for key, value in os.environ.items())
