"""A configuration that somebody planted in a parent folder runs nothing, whoever works below it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import toolrun
from support.two_users import STRANGER, needs_root, shared_place, toolrun_of_stranger

pytestmark = needs_root

TRAP = """
import pathlib
from toolrun import tool

pathlib.Path(__file__).parent.joinpath("sprung").touch()

@tool
def help_yourself() -> str:
    "Helps."
    return "helped"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with shared_place() as place:
        yield place


def plant(folder: Path, owner: int) -> Path:
    """A project of that user, with a tool that leaves a trace when it is loaded."""
    (folder / "tools").mkdir(parents=True)
    (folder / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    (folder / "tools" / "trap.py").write_text(TRAP)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner)
    return folder


def is_sprung(project: Path) -> bool:
    return (project / "tools" / "sprung").exists()


@pytest.mark.parametrize("command", [("list",), ("call", "help_yourself"), ("new", "mine"), ("log",), ("serve",)])
def test_root_runs_nothing_of_a_strangers_project(command: tuple[str, ...], place: Path) -> None:
    project = plant(place / "theirs", STRANGER)
    (project / "deep").mkdir()
    done = toolrun(*command, cwd=project / "deep")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"it belongs to uid {STRANGER}, and you are root (uid 0)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not is_sprung(project)


def test_every_way_out_that_is_offered_works(place: Path) -> None:
    project = plant(place / "mounted", STRANGER)
    call = ("call", "help_yourself")
    for arguments, env in [
        (("--config", "toolrun.toml", *call), {}),
        (call, {"TOOLRUN_CONFIG": str(project / "toolrun.toml")}),
        (call, {"TOOLRUN_SAFE_DIRECTORY": str(place)}),
        (call, {"SUDO_UID": str(STRANGER)}),
    ]:
        done = toolrun(*arguments, cwd=project, env=env)
        assert (done.returncode, done.stdout) == (0, "helped\n"), done.stderr


def test_the_doctor_says_so(place: Path) -> None:
    project = plant(place / "theirs", STRANGER)
    done = toolrun("doctor", cwd=project)
    assert done.returncode == 1
    assert f"{project / 'toolrun.toml'} is not used: it belongs to uid {STRANGER}" in done.stdout
    assert f"TOOLRUN_SAFE_DIRECTORY={project}" in done.stdout
    assert not is_sprung(project)


def test_a_file_left_in_a_folder_like_tmp_is_not_used(place: Path) -> None:
    place.chmod(0o1777)
    (place / "toolrun.toml").write_text('[servers.trap]\ncommand = "touch"\nargs = ["sprung"]\n')
    os.chown(place / "toolrun.toml", STRANGER, STRANGER)
    (place / "work").mkdir()
    done = toolrun("list", cwd=place / "work")
    assert (done.returncode, done.stdout) == (2, "")
    os.chown(place / "toolrun.toml", 0, 0)
    (place / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    plant(place / "other", 0)
    (place / "tools").symlink_to(place / "other" / "tools")
    os.chown(place / "tools", STRANGER, STRANGER, follow_symlinks=False)
    done = toolrun("list", cwd=place / "work")
    assert f"the link {place / 'tools'} belongs to uid {STRANGER}" in done.stderr
    assert not is_sprung(place / "other")


def test_a_strangers_tool_in_ones_own_project_is_left_out(place: Path) -> None:
    project = plant(place / "mine", 0)
    (project / "tools" / "added.py").write_text(TRAP.replace("help_yourself", "added").replace("sprung", "sprung2"))
    os.chown(project / "tools" / "added.py", STRANGER, STRANGER)
    done = toolrun("call", "added", cwd=project)
    assert done.returncode == 1
    assert f"tools/added.py: is not loaded: it belongs to uid {STRANGER}" in done.stderr
    assert not (project / "tools" / "sprung2").exists()
    assert toolrun("call", "help_yourself", cwd=project).stdout == "helped\n"


def test_without_a_configuration_the_folder_tools_of_a_stranger_is_not_used(place: Path) -> None:
    project = plant(place / "theirs", STRANGER)
    (project / "toolrun.toml").unlink()
    done = toolrun("list", cwd=project)
    assert f"belongs to uid {STRANGER}" in done.stderr
    assert not is_sprung(project)


def test_anybody_uses_a_project_of_root_and_nobody_that_of_a_third(place: Path) -> None:
    roots = plant(place / "roots", 0)
    for path in (roots / "tools").iterdir():
        path.write_text(TRAP.replace('pathlib.Path(__file__).parent.joinpath("sprung").touch()', ""))
    assert toolrun_of_stranger("call", "help_yourself", cwd=roots).stdout == "helped\n"
    third = plant(place / "third", STRANGER + 1)
    refused = toolrun_of_stranger("list", cwd=third)
    assert refused.returncode == 2
    assert f"it belongs to uid {STRANGER + 1}, and you are uid {STRANGER}" in refused.stderr
    own = plant(place / "own", STRANGER)
    assert toolrun_of_stranger("call", "help_yourself", cwd=own).stdout == "helped\n"


def test_a_group_that_only_its_user_has_may_write(place: Path) -> None:
    """As on systems where everybody has a group and files are made with mode 664."""
    own = plant(place / "own", STRANGER)
    for path in (own, own / "tools", own / "tools" / "trap.py", own / "toolrun.toml"):
        path.chmod(path.stat().st_mode | 0o020)
    assert toolrun_of_stranger("call", "help_yourself", cwd=own).stdout == "helped\n"
    os.chown(own, STRANGER, STRANGER + 1)
    refused = toolrun_of_stranger("call", "help_yourself", cwd=own)
    assert f"the group with gid {STRANGER + 1} may write to the folder {own}" in refused.stderr
