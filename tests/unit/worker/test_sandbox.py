"""The worker carries out a plan that it reads first; nothing runs if it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolrun.processes.sandbox.plan import bare_plan
from toolrun.processes.sandbox.system_support import NAMESPACES, try_rung
from toolrun.worker import DIRECTORY

LIMIT = 30.0
IN_NAMESPACES = 0x10000000 | 0x20000 | 0x20000000 | 0x08000000

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def run(plan: dict[str, Any], *arguments: str, more: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    data = json.dumps(bare_plan() | plan).encode()
    command = [sys.executable, "-S", f"{DIRECTORY}/__main__.py", "--sandbox", *arguments]
    frame = b"%08d" % len(data) + data
    return subprocess.run(command, input=frame + more, capture_output=True, timeout=LIMIT, check=False)


def test_a_program_gets_all_of_its_input_after_the_plan() -> None:
    done = run({}, "--", "cat", more=b"first line\nrest")
    assert (done.returncode, done.stdout) == (0, b"first line\nrest")


def test_an_input_that_ends_before_the_plan_does_runs_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-S", f"{DIRECTORY}/__main__.py", "--sandbox", "--", "touch", str(tmp_path / "made")]
    subprocess.run(command, input=b'00000100{"memory"', timeout=LIMIT, check=True)
    assert not (tmp_path / "made").exists()


def test_a_mount_that_fails_is_told_and_nothing_runs(tmp_path: Path) -> None:
    if reason := try_rung(NAMESPACES):
        pytest.skip(f"this system refuses namespaces: {reason}")
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit('it has run')")
    mounts = [["own mounts"], ["proc", str(tmp_path / "missing")]]
    done = run({"namespaces": IN_NAMESPACES, "mounts": mounts}, str(script))
    assert done.returncode == 1
    assert "mount: No such file" in json.loads(done.stdout)["ready"]["sandbox"]
    assert b"it has run" not in done.stderr


@pytest.mark.parametrize("is_exposed", [True, False])
@pytest.mark.parametrize("wall", ["landlock", "mounts"])
def test_a_link_that_a_script_may_have_made_since_the_plan_is_not_followed(
    tmp_path: Path, wall: str, is_exposed: bool
) -> None:
    if reason := try_rung(NAMESPACES):
        pytest.skip(f"this system refuses namespaces: {reason}")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    place, all_rights = str(tmp_path / "link"), (1 << 13) - 1
    rules = {"size": 8, "files": all_rights, "scopes": 0, "rules": [["/", all_rights, False], [place, 4, is_exposed]]}
    steps = [["own mounts"], ["keep", place, is_exposed]]
    plan = {"landlock": rules} if wall == "landlock" else {"namespaces": IN_NAMESPACES, "mounts": steps}
    done = run({**plan, "supervised": True}, "--", "echo", "it has run")
    assert (b"it has run" in done.stdout) == (not is_exposed), done.stderr
    assert (b"a symbolic link is in the way to" in done.stderr) == is_exposed


def test_variables_that_came_late_are_in_force_for_the_script(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "found_late.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("import found_late\ndef f() -> int:\n    return 1\n")
    done = run({"late": {"PYTHONPATH": str(tmp_path / "library")}}, str(script))
    assert json.loads(done.stdout)["ready"]["functions"] == ["f"], done.stderr
