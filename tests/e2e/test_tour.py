"""`script/demo tour`: what toolrun does with good calls and bad ones."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.console import LIMIT, QUICKSTART, ROOT, environment, on_terminal, run

DEMO = QUICKSTART / "demo.py"


def test_every_step_goes_as_expected() -> None:
    done = run(str(ROOT / "script" / "demo"), "tour", "--check", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\ncheck: everything went as expected\n")
    assert "\x1b" not in done.stdout


def test_the_tour_shows_what_the_model_gets_and_what_is_left() -> None:
    done = run(sys.executable, str(DEMO), cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        'repaired    room: "Kitchen" → "kitchen"',
        'model gets  Error: Unknown tool "get_wether"',
        "model gets  Error: Tool 'wait_for_parcel' timed out after 1 s",
        'envelope    {"success": true,\n                "result": {"room": "kitchen", "brightness": 80},\n',
        "abandoned   1 thread in wait_for_parcel",
        "runs photos.py",
        "processes   none left, of the script and of what it started",
    ):
        assert part in done.stdout


def test_the_commands_that_it_suggests_work() -> None:
    done = run(sys.executable, str(DEMO), cwd=ROOT)
    _, _, suggested = done.stdout.partition("Try next\n")
    again = run("bash", "-e", "-c", suggested, cwd=ROOT)
    assert (again.returncode, again.stderr) == (0, "")


def test_a_terminal_gets_colours_and_a_check_does_not() -> None:
    assert "\x1b[" in on_terminal(sys.executable, str(DEMO), cwd=ROOT)[1]
    assert "\x1b[" not in on_terminal(sys.executable, str(DEMO), "--check", cwd=ROOT)[1]


@pytest.mark.parametrize(
    ("file", "before", "after", "step"),
    [
        ("home.py", "return a + b", "return a - b", "An async function"),
        ("home.py", "time.sleep(60)", "time.sleep(0)", "A tool that hangs"),
        ("home.py", "raise RuntimeError", "return str", "A tool that raises"),
        ("photos.py", '"sleep", "600"', '"true"', "A script that hangs"),
    ],
)
def test_the_check_fails_when_a_step_goes_wrong(file: str, before: str, after: str, step: str, tmp_path: Path) -> None:
    project = shutil.copytree(QUICKSTART, tmp_path / "quickstart")
    path = project / "tools" / file
    path.write_text(path.read_text().replace(before, after))
    done = run(sys.executable, str(project / "demo.py"), "--check", cwd=tmp_path)
    assert done.returncode == 1
    [verdict] = [line for line in done.stdout.splitlines() if line.startswith("check: not as expected: ")]
    assert step in verdict


def test_ctrl_c_ends_the_tour_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", str(DEMO)],
        cwd=ROOT,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert any("call        wait_for_parcel" in line for line in process.stdout)
            process.send_signal(signal.SIGINT)
            rest, stderr = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert (process.returncode, stderr) == (130, "")
    assert rest.endswith("interrupted\n")
