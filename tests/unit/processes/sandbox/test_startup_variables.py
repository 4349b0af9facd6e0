"""Variables that lead a starting program into places where scripts write come into force behind the walls."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolrun.config.model import Permissions
from toolrun.processes.sandbox.policy import STRICT, Policy, ProjectPaths, make_policy
from toolrun.processes.sandbox.startup_variables import split_variables


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("project", "elsewhere", "writable"):
        (tmp_path / name).mkdir()
    return tmp_path / "project"


def make(project: Path) -> Policy:
    project_paths = ProjectPaths(project, writable=(project.parent / "writable",))
    return make_policy(STRICT, Permissions(), "", project_paths, Path(sys.executable), ())


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD"])
@pytest.mark.parametrize(
    "value", ["{project}", "/usr/lib:{project}/lib", "lib", "", "/usr/lib:", "{elsewhere}/../project", "{writable}"]
)
def test_what_leads_to_where_scripts_write_waits(project: Path, name: str, value: str) -> None:
    beside = project.parent
    text = value.format(project=project, elsewhere=beside / "elsewhere", writable=beside / "writable")
    assert split_variables({name: text, "HOME": "/x"}, make(project), project) == ({"HOME": "/x"}, {name: text})


def test_a_link_to_where_scripts_write_waits(project: Path) -> None:
    (project.parent / "link").symlink_to(project)
    _, late = split_variables({"PYTHONPATH": str(project.parent / "link")}, make(project), project)
    assert late


def test_what_leads_elsewhere_does_not_wait(project: Path) -> None:
    variables = {"PYTHONPATH": str(project.parent / "elsewhere"), "LD_LIBRARY_PATH": "/usr/lib:/opt/lib"}
    assert split_variables(variables, make(project), project) == (variables, {})


def test_other_variables_do_not_wait(project: Path) -> None:
    variables = {"DATA": str(project), "PYTHONUNBUFFERED": "1"}
    assert split_variables(variables, make(project), project) == (variables, {})
