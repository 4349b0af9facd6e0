"""The files of deploy/cluster say what `toolrun cluster` says. Kubernetes is not there to run them."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from toolrun.cli.commands.cluster import command
from toolrun.cluster.credentials import Credentials
from toolrun.cluster.ray_start import ray_variables

DEPLOY = Path(__file__).parents[3] / "deploy" / "cluster"
MANIFEST: dict[str, Any] = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text())
GROUPS: list[dict[str, Any]] = [MANIFEST["spec"]["headGroupSpec"], *MANIFEST["spec"]["workerGroupSpecs"]]
PODS = [group["template"]["spec"] for group in GROUPS]


def unit(role: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # the way that its documentation names
    parser.read(DEPLOY / f"toolrun-cluster-{role}.service")
    return parser


@pytest.mark.parametrize("role", ["head", "node"])
def test_a_unit_runs_a_command_that_exists_with_options_that_it_has(role: str) -> None:
    program, group, name, *words = shlex.split(unit(role)["Service"]["ExecStart"])
    assert (Path(program).name, group, name) == ("toolrun", "cluster", role)
    values = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "cluster.env").read_text(), re.MULTILINE))
    words = [re.sub(r"\$\{(\w+)\}", lambda it: values[it[1]], word) for word in words]
    found = command.commands[name]
    assert isinstance(found, click.Command)
    found.make_context(name, words)  # fails for an option that it does not have


@pytest.mark.parametrize("role", ["head", "node"])
def test_a_unit_is_restarted_and_ends_with_all_its_processes(role: str) -> None:
    service = unit(role)["Service"]
    assert service["Restart"] == "always"
    assert service["KillMode"] == "control-group"
    assert service["User"] != "root"
    assert int(service["LimitNOFILE"]) >= 65535
    assert "RestrictNamespaces" not in service


@pytest.mark.parametrize("role", ["head", "node"])
def test_systemd_has_nothing_to_say_against_a_unit(tmp_path: Path, role: str) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / f"toolrun-cluster-{role}.service"
    text = (DEPLOY / copy.name).read_text()
    assert "/opt/toolrun/bin/toolrun" in text
    copy.write_text(text.replace("/opt/toolrun/bin/toolrun", shutil.which("true") or ""))  # it has to exist
    done = subprocess.run([verify, "verify", copy], capture_output=True, text=True, timeout=60)
    about = [line for line in done.stderr.splitlines() if copy.name in line]  # not what is wrong with this system
    assert not about
    copy.write_text(copy.read_text().replace("Restart=always", "Restart=sometimes"))
    done = subprocess.run([verify, "verify", copy], capture_output=True, text=True, timeout=60)
    assert f"{copy.name}:" in done.stderr, "it does look at the unit"


def test_the_manifest_is_a_ray_cluster() -> None:
    assert (MANIFEST["apiVersion"], MANIFEST["kind"]) == ("ray.io/v1", "RayCluster")
    assert re.fullmatch(r"\d+\.\d+\.\d+", MANIFEST["spec"]["rayVersion"])
    for group in GROUPS:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())  # the operator wants strings
    for group in MANIFEST["spec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert group["groupName"]


def test_every_pod_has_the_variables_that_toolrun_cluster_sets() -> None:
    machine = Credentials(Path("/machine"), "10.0.0.1")
    for pod in PODS:
        [container] = pod["containers"]
        assert {it["name"]: it["value"] for it in container["env"]} == ray_variables(machine)
        assert {"name": "machine", "mountPath": "/machine", "readOnly": True} in container["volumeMounts"]


def test_only_the_init_container_sees_the_key_that_signs() -> None:
    for pod in PODS:
        assert "authority" in {it["name"] for it in pod["volumes"]}
        assert "authority" in {it["name"] for it in pod["initContainers"][0]["volumeMounts"]}
        assert "authority" not in {it["name"] for it in pod["containers"][0]["volumeMounts"]}


def test_the_certificate_of_the_head_is_for_the_name_of_its_service() -> None:
    script = PODS[0]["initContainers"][0]["command"][-1]
    assert f"--name {MANIFEST['metadata']['name']}-head-svc " in script


def test_the_init_containers_call_toolrun_with_options_that_it_has() -> None:
    for pod in PODS:
        script = pod["initContainers"][0]["command"][-1]
        line = next(line for line in script.splitlines() if line.startswith("toolrun "))
        _, _, name, *words = shlex.split(line)
        command.commands[name].make_context(name, words)


def test_every_container_has_resources_and_probes() -> None:
    for pod in PODS:
        assert pod["securityContext"]["runAsNonRoot"]
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]
        for container in pod["containers"]:
            assert container["livenessProbe"]
            assert container["readinessProbe"]
    assert GROUPS[0]["rayStartParams"]["num-cpus"] == "0"
    assert GROUPS[0]["rayStartParams"]["include-dashboard"] == "false"
