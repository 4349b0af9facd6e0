"""How a walled process is started: its command line says nothing of the walls, its input begins with the plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolrun.config.model import Permissions
from toolrun.processes.sandbox.command import worker_command, worker_plan
from toolrun.processes.sandbox.policy import OFF, STANDARD, Policy, ProjectPaths, interpreter_roots, make_policy


def make(root: Path, level: str = STANDARD, hidden: tuple[Path, ...] = ()) -> Policy:
    interpreter = Path(sys.executable)
    project_paths = ProjectPaths(root, hidden)
    return make_policy(level, Permissions(), "section", project_paths, interpreter, interpreter_roots(interpreter))


def plan_of(data: bytes) -> dict[str, list[list[str]]]:
    size, plan = int(data[:8]), data[8:]
    assert len(plan) == size
    found: dict[str, list[list[str]]] = json.loads(plan)
    return found


@pytest.mark.parametrize("rung", ["namespaces", "landlock", "none"])
def test_the_command_line_does_not_show_the_plan(tmp_path: Path, rung: str) -> None:
    command = worker_command(make(tmp_path), rung, ["script.py"], tmp_path)
    assert command[0] == sys.executable
    assert command[-2:] == ["--sandbox", "script.py"]
    assert str(tmp_path) not in " ".join(command[1:])


@pytest.mark.parametrize("rung", ["namespaces", "landlock"])
def test_the_input_begins_with_the_length_of_the_plan_and_the_plan(tmp_path: Path, rung: str) -> None:
    plan = plan_of(worker_plan(make(tmp_path), rung, 7, None, tmp_path / "own"))
    assert bool(plan["mounts"]) == (rung == "namespaces")
    assert plan["landlock"]


@pytest.mark.parametrize("rung", ["namespaces", "bubblewrap", "landlock", "none"])
def test_without_walls_the_plan_is_bare_on_every_rung(tmp_path: Path, rung: str) -> None:
    policy = make(tmp_path, OFF)
    assert "bwrap" not in worker_command(policy, rung, [], None)
    plan = plan_of(worker_plan(policy, rung, 7, None, None))
    assert not plan["mounts"]
    assert not plan["landlock"]


def test_a_directory_is_put_back_before_what_is_hidden_in_it(tmp_path: Path) -> None:
    """Also beside a directory whose name differs by a sign that sorts before the slash."""
    project, beside = tmp_path / "project", tmp_path / "project-old"
    for directory in (project / "inner", beside):
        directory.mkdir(parents=True)
    policy = make(project, hidden=(project / "inner", beside))
    steps = plan_of(worker_plan(policy, "namespaces", 7, None, tmp_path / "own"))["mounts"]
    paths = [step[1] for step in steps if step[0] in ("cover", "put back")]
    assert paths.index(str(project)) < paths.index(str(project / "inner"))
