"""What the process table makes of /proc. The real system is read in tests/e2e and acceptance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolrun.processes import process_table
from toolrun.processes.engine import WorkerStatus
from toolrun.processes.process_table import WorkerProcess, find_workers, is_supported, supervised_pid
from toolrun.processes.tag import LABEL, TAG

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SCRIPT = "/project/tools/x.py"
HOST = 10


class Proc:
    """A system with the processes that a test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "uptime").write_text("1000.00 1.00\n")
        (root / "self").mkdir()
        (root / "self" / "environ").touch()

    def add(self, pid: int, *, parent: int = 1, started: int = 900, state: str = "S", **variables: str) -> Path:
        entry = self.root / str(pid)
        entry.mkdir()
        (entry / "environ").write_text("".join(f"{name}={value}\0" for name, value in variables.items()))
        between = " ".join(["0"] * 17)
        (entry / "stat").write_text(f"{pid} (a) strange (name) {state} {parent} {between} {started * TICKS} 0 0\n")
        (entry / "statm").write_text("9 3 1 1 0 1 0\n")
        return entry

    def first(self, pid: int, **more: Any) -> Path:
        """The process between a host and its supervised worker."""
        entry = self.worker(pid, **more)
        (entry / "cmdline").write_text("/venv/bin/python\0-S\0/x/worker/__main__.py\0--sandbox\0{}\0/x.py\0")
        return entry

    def inside(self, pid: int, own: int, **more: Any) -> Path:
        """A process in a PID namespace, where it has another number."""
        entry = self.worker(pid, **more)
        (entry / "status").write_text(f"Name:\tpython\nNSpid:\t{pid}\t{own}\n")
        return entry

    def worker(self, pid: int, number: int = 1, *, parent: int = HOST, label: str = SCRIPT, **more: object) -> Path:
        """A worker, or with another parent something that one started."""
        variables = {TAG: f"{HOST}-e:{number}", LABEL: label}
        return self.add(pid, parent=parent, **variables, **more)  # type: ignore[arg-type]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(process_table, "PROC", tmp_path)
    return Proc(tmp_path)


def test_a_worker_is_listed_with_all_that_it_started(proc: Proc) -> None:
    proc.add(HOST)
    proc.worker(11, state="T")
    proc.worker(12, parent=11, started=950)
    assert is_supported()
    [found] = find_workers()
    assert found.age == pytest.approx(100)
    assert found == WorkerProcess("10-e:1", SCRIPT, 11, HOST, "stopped", found.age, 2 * 3 * PAGE, 2, status=None)


def test_a_worker_in_a_namespace_stands_for_those_who_wait_for_it(proc: Proc) -> None:
    proc.add(HOST)
    proc.first(11)
    proc.inside(12, 1, parent=11)
    proc.inside(13, 2, parent=11, state="T")
    proc.inside(14, 3, parent=13)
    [found] = find_workers()
    assert (found.pid, found.host, found.label, found.activity) == (13, HOST, SCRIPT, "stopped")
    assert (found.processes, found.memory) == (2, 2 * 3 * PAGE)


def test_the_worker_of_bubblewrap_is_a_grandchild_of_its_first_process(proc: Proc) -> None:
    proc.first(11)
    proc.inside(12, 1, parent=11)
    proc.inside(13, 2, parent=12)
    [found] = find_workers()
    assert (found.pid, found.host, found.processes) == (13, HOST, 1)


def test_a_worker_without_a_namespace_is_the_oldest_child_of_its_first_process(proc: Proc) -> None:
    proc.first(11)
    proc.first(13, parent=11, started=901)  # forked: its command line is the same
    proc.worker(12, parent=11, started=950)  # an orphan, which its first process has adopted
    [found] = find_workers()
    assert (found.pid, found.host, found.processes) == (13, HOST, 2)


def test_a_first_process_without_a_worker_is_none(proc: Proc) -> None:
    proc.first(11)
    proc.inside(12, 1, parent=11)
    assert find_workers() == []


def test_a_server_with_a_namespace_of_its_own_is_not_a_supervised_worker(proc: Proc) -> None:
    proc.worker(11)
    proc.inside(12, 1, parent=11)
    proc.inside(13, 2, parent=12)
    [found] = find_workers()
    assert (found.pid, found.processes) == (11, 3)


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ({11: "12 13"}, 13),  # PID 1 and the worker
        ({11: "12", 12: "13"}, 13),  # bubblewrap: PID 1 has started the worker
        ({11: "14 15"}, 14),  # no namespace
        ({11: "12"}, None),
        ({11: ""}, None),
        ({}, None),
    ],
)
def test_the_worker_is_found_behind_its_first_process(
    proc: Proc, children: dict[int, str], expected: int | None
) -> None:
    proc.first(11)
    proc.inside(12, 1)
    proc.inside(13, 2)
    for pid in (14, 15):
        proc.worker(pid)
    for pid, found in children.items():
        task = proc.root / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "children").write_text(found)
    assert supervised_pid(11) == expected


def test_a_descendant_that_is_older_by_the_clock_is_not_taken_for_the_worker(proc: Proc) -> None:
    proc.worker(11, started=900)
    proc.worker(12, parent=11, started=899)
    [worker] = find_workers()
    assert (worker.label, worker.pid, worker.host) == (SCRIPT, 11, HOST)


def test_the_status_that_a_host_publishes_is_read(proc: Proc) -> None:
    host = proc.add(HOST)
    proc.worker(11, 1)
    proc.worker(12, 2, started=950)
    (host / "fd").symlink_to("/proc/self/fd")
    with os.fdopen(os.memfd_create("toolrun-workers"), "wb", buffering=0) as file:
        file.write(b'{"10-e:1": ["busy", 5, 1, "landlock"], "10-e:9": ["ready", 3, 0]}')
        assert [worker.status for worker in find_workers()] == [WorkerStatus("busy", 5, 1, "landlock"), None]


def test_what_a_worker_left_behind_is_listed_as_such(proc: Proc) -> None:
    proc.worker(12, parent=1, started=960)
    proc.worker(13, parent=1, started=950)
    [left] = find_workers()
    assert (left.label, left.pid, left.processes) == ("(left behind by a worker)", 13, 2)


def test_a_worker_is_listed_by_its_label(proc: Proc) -> None:
    proc.worker(11, label="/project/home.py:scan")
    assert [worker.label for worker in find_workers()] == ["/project/home.py:scan"]


def test_a_worker_in_a_container_is_recognised_from_outside(proc: Proc) -> None:
    host = proc.add(4711)
    (host / "status").write_text("Name:\tpython\nNSpid:\t4711\t10\n")
    proc.worker(4712, parent=4711)
    assert [worker.label for worker in find_workers()] == [SCRIPT]


def test_workers_come_in_the_order_of_their_age(proc: Proc) -> None:
    for pid, started in ((11, 980), (12, 20), (13, 500)):
        proc.worker(pid, pid, started=started)
    assert [worker.pid for worker in find_workers()] == [12, 13, 11]


def test_a_process_that_ends_while_it_is_read_is_left_out(proc: Proc) -> None:
    (proc.worker(11, 1) / "stat").unlink()
    (proc.worker(12, 2) / "stat").write_text("")
    assert find_workers() == []


def test_those_of_other_users_are_left_out(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.worker(11)
    monkeypatch.setattr(os, "getuid", lambda: 123_456)
    assert find_workers() == []
