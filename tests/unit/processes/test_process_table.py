"""What the survey makes of what the system tells of processes. The real system is asked in tests/e2e and acceptance."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from toolrun.processes import process_table
from toolrun.processes.local import MARKER
from toolrun.processes.process_table import SeenWorker, can_survey, find_workers
from toolrun.processes.status_file import Told
from toolrun.scripts.isolated import VARIABLE

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
WORKER = ("/venv/bin/python", "/somewhere/worker/__main__.py", "/project/tools/x.py", "--concurrency", "1")


class Proc:
    """A system with the processes that a test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "uptime").write_text("1000.00 1.00\n")
        (root / "self").mkdir()
        (root / "self" / "environ").touch()

    def add(
        self, pid: int, *command: str, parent: int = 1, started: int = 900, state: str = "S", **variables: str
    ) -> Path:
        entry = self.root / str(pid)
        entry.mkdir()
        (entry / "environ").write_text("".join(f"{name}={value}\0" for name, value in variables.items()))
        (entry / "cmdline").write_text("".join(f"{word}\0" for word in command))
        between = " ".join(["0"] * 17)
        (entry / "stat").write_text(f"{pid} (a) strange (name) {state} {parent} {between} {started * TICKS} 0 0\n")
        (entry / "statm").write_text("9 3 1 1 0 1 0\n")
        return entry


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(process_table, "PROC", tmp_path)
    return Proc(tmp_path)


def test_a_worker_is_seen_with_all_that_it_started(proc: Proc) -> None:
    proc.add(10, "python", "server.py")
    proc.add(11, *WORKER, parent=10, state="T", **{MARKER: "e:1"})
    proc.add(12, "sleep", "9", parent=11, started=950, **{MARKER: "e:1"})
    assert can_survey()
    assert find_workers() == [
        SeenWorker("e:1", "/project/tools/x.py", 11, 10, "stopped", pytest.approx(100), 2 * 3 * PAGE, 2, told=None)
    ]


def test_what_its_host_tells_of_a_worker_is_read(proc: Proc) -> None:
    host = proc.add(10, "python", "server.py")
    proc.add(11, *WORKER, parent=10, **{MARKER: "e:1"})
    proc.add(12, *WORKER, parent=10, started=950, **{MARKER: "e:2"})
    (host / "fd").symlink_to("/proc/self/fd")
    with os.fdopen(os.memfd_create("toolrun-workers"), "wb", buffering=0) as file:
        file.write(b'{"e:1": ["busy", 5, 1], "e:9": ["ready", 3, 0]}')
        assert [worker.told for worker in find_workers()] == [Told("busy", 5, 1), None]


def test_what_a_worker_left_behind_is_seen(proc: Proc) -> None:
    proc.add(12, "sleep", "9", started=960, **{MARKER: "e:1"})
    proc.add(13, "sleep", "9", started=950, **{MARKER: "e:1"})
    [left] = find_workers()
    assert (left.script, left.pid, left.processes) == ("(left behind by a worker)", 13, 2)


def test_an_isolated_function_is_named(proc: Proc) -> None:
    target = json.dumps({"path": "/project/home.py", "function": "scan"})
    proc.add(11, *WORKER[:2], "/somewhere/worker/isolated_function.py", **{MARKER: "e:1", VARIABLE: target})
    assert [worker.script for worker in find_workers()] == ["/project/home.py:scan"]


def test_workers_come_in_the_order_of_their_age(proc: Proc) -> None:
    for pid, started in ((11, 980), (12, 20), (13, 500)):
        proc.add(pid, *WORKER, started=started, **{MARKER: f"e:{pid}"})
    assert [worker.pid for worker in find_workers()] == [12, 13, 11]


def test_a_process_that_ends_while_it_is_looked_at_is_left_out(proc: Proc) -> None:
    (proc.add(11, *WORKER, **{MARKER: "e:1"}) / "stat").unlink()
    (proc.add(12, *WORKER, **{MARKER: "e:2"}) / "stat").write_text("")
    assert find_workers() == []


def test_those_of_other_users_are_left_out(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(11, *WORKER, **{MARKER: "e:1"})
    monkeypatch.setattr(os, "getuid", lambda: 123_456)
    assert find_workers() == []
