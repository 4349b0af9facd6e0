"""What a policy makes of the permissions in toolrun.toml."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolrun.config.model import Permissions
from toolrun.processes.sandbox.policy import STANDARD, STRICT, ExposedLinkError, Policy, ProjectPaths, make_policy


def make(root: Path, permissions: Permissions, *writable: Path) -> Policy:
    return make_policy(STRICT, permissions, "tool.x.permissions", ProjectPaths(root, writable=writable), _PYTHON, ())


_PYTHON = Path(sys.executable)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("project", "elsewhere", "shared"):
        (tmp_path / name).mkdir()
    return tmp_path / "project"


def test_a_permission_is_relative_to_the_project(project: Path) -> None:
    policy = make(project, Permissions(read=("in/../data",), write=("../elsewhere",)))
    assert project / "data" in policy.read
    assert policy.write == (project.parent / "elsewhere",)


@pytest.mark.parametrize("path", ["link", "link/deeper", "inner/../link"])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_permission_leads_through_no_link_in_the_project(project: Path, path: str, kind: str) -> None:
    """A script can have made it."""
    (project / "link").symlink_to(project.parent / "elsewhere")
    with pytest.raises(ExposedLinkError, match=r"tool\.x\.permissions.*leads to .*elsewhere"):
        make(project, Permissions(**{kind: (path,)}))


def test_a_permission_leads_through_no_link_in_what_another_script_may_write(project: Path) -> None:
    shared = project.parent / "shared"
    (shared / "link").symlink_to(project.parent / "elsewhere")
    permissions = Permissions(read=(str(shared / "link"),))
    assert project.parent / "elsewhere" in make(project, permissions).read
    with pytest.raises(ExposedLinkError):
        make(project, permissions, shared)


def test_a_link_of_the_user_that_leads_to_one_of_a_script_is_refused(project: Path) -> None:
    (project.parent / "mine").symlink_to(project / "link")
    (project / "link").symlink_to(project.parent / "elsewhere")
    with pytest.raises(ExposedLinkError):
        make(project, Permissions(read=(str(project.parent / "mine"),)))


def test_a_link_outside_of_the_project_is_followed(project: Path) -> None:
    (project.parent / "mine").symlink_to("elsewhere")
    policy = make(project, Permissions(write=("../mine/deeper",)))
    assert policy.write == (project.parent / "elsewhere" / "deeper",)


def test_links_that_lead_in_a_circle_end(project: Path) -> None:
    (project.parent / "one").symlink_to("two")
    (project.parent / "two").symlink_to("one")
    assert make(project, Permissions(read=("../one",))).read


def test_a_directory_that_is_no_project_is_only_read(project: Path) -> None:
    """A script could write a toolrun.toml there, which the next command would find."""
    made = {
        is_configured: make_policy(
            STANDARD, Permissions(), "", ProjectPaths(project, is_configured=is_configured), _PYTHON, ()
        )
        for is_configured in (True, False)
    }
    assert (made[True].read, made[True].write) == ((), (project,))
    assert (made[False].read, made[False].write) == ((project,), ())


def test_a_home_that_is_no_project_is_not_even_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project / "home"))
    territory = ProjectPaths(project, is_configured=False)
    policy = make_policy(STANDARD, Permissions(read=("data",)), "", territory, _PYTHON, ())
    assert (policy.read, policy.write) == ((project / "data",), ())
