"""Nothing outlives its worker: not a deadline, not the end of the worker, not that of the host.

What is to live on holds a lock on a file, so it does not matter how it hides. It ends by itself after a minute.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox.conftest import WALLS, WITHOUT, check_possible
from sandbox.place import HERE, LIMIT, OFF, Kind, Place, is_held, open_place, wait_for
from toolrun.processes.sandbox.system_support import LANDLOCK
from toolrun.processes.watchdog import find_children

WAYS = (
    "a session of its own",
    "two forks",
    "not dumpable",
    "no variables",
    "nohup and env -i",
    "forking and dying",
    "forking when its parent dies",
)
EVERYWHERE = pytest.mark.parametrize("kind", [*WALLS, *WITHOUT], ids=str)
MANY = 1300


def locks(place: Place) -> dict[str, Path]:
    return {way: place.project / f"lock-{number}" for number, way in enumerate(WAYS)}


def begin_all(place: Place, timeout: float) -> list[int]:
    """One call for each way, all at the same time."""
    return [place.begin("escape", way=way, path=str(path), timeout=timeout) for way, path in locks(place).items()]


def have_begun(place: Place) -> bool:
    return all(Path(f"{path}.begun").exists() for path in locks(place).values())


def check_nothing_is_left(place: Place) -> None:
    for way, path in locks(place).items():
        wait_for(lambda path=path: not is_held(path), f"the end of what used this way: {way}")  # type: ignore[misc]


def clean(place: Place) -> None:
    for file in place.project.glob("lock-*"):
        file.unlink()


def test_nothing_outlives_a_deadline(place: Place) -> None:
    for timeout in (1.5, 6.0, LIMIT):  # on a slow machine, they have not begun before the first one
        answers = [place.end(number) for number in begin_all(place, timeout)]
        assert {answer.kind for answer in answers} == {"timeout"}
        check_nothing_is_left(place)
        if have_begun(place):
            break
        clean(place)
    assert have_begun(place)
    clean(place)


@EVERYWHERE
def test_nothing_outlives_a_host_that_is_killed(kind: Kind) -> None:
    check_possible(kind)
    with open_place(kind) as place:
        begin_all(place, LIMIT)
        wait_for(lambda: have_begun(place), "all are at work")
        assert all(is_held(path) for path in locks(place).values())
        temporary = [path for path in Path("/tmp").iterdir() if path.name.startswith(f"toolrun-{place.process.pid}-")]
        place.process.kill()
        place.process.wait()
        check_nothing_is_left(place)
        wait_for(lambda: not any(path.exists() for path in temporary), "their temporary files are removed")


@pytest.mark.parametrize("kind", [it for it in (*WALLS, *WITHOUT) if it.is_own], ids=str)
def test_nothing_outlives_a_host_that_is_killed_together_with_its_watchdog(kind: Kind) -> None:
    """The kernel tells the processes that are above a worker, and these end the others."""
    check_possible(kind)
    with open_place(kind) as place:
        begin_all(place, LIMIT)
        wait_for(lambda: have_begun(place), "all are at work")
        first = find_children()[place.process.pid]
        watchdogs = [pid for pid in first if b"watchdog.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert watchdogs
        try:
            for pid in (*watchdogs, place.process.pid):
                os.kill(pid, signal.SIGKILL)
            place.process.wait()
            check_nothing_is_left(place)
        finally:
            for lock in locks(place).values():
                end_holders(lock)
            for path in Path("/tmp").glob(f"toolrun-{place.process.pid}-*"):
                shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("kind", [it for it in (*WALLS, *WITHOUT) if not it.is_own], ids=str)
def test_nothing_outlives_a_host_that_ends(kind: Kind) -> None:
    check_possible(kind)
    with open_place(kind) as place:
        begin_all(place, LIMIT)
        wait_for(lambda: have_begun(place), "all are at work")
        place.process.send_signal(signal.SIGINT)
        place.process.wait(LIMIT)
        check_nothing_is_left(place)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_works_on_what_is_only_killed_with_its_group(tmp_path: Path, way: str) -> None:
    """So that the tests above prove something."""
    lock = tmp_path / "lock"
    code = "import sys; sys.path.insert(0, sys.argv[1]); import intruder; intruder.escape(*sys.argv[2:])"
    command = [sys.executable, "-B", "-c", code, str(HERE / "project" / "tools"), way, str(lock)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        wait_for(Path(f"{lock}.begun").exists, "it has begun")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert is_held(lock)
    finally:
        end_holders(lock)


def end_holders(lock: Path) -> None:
    """End what a test may have let loose. What forks all the time ends when the file is removed."""
    with lock.open() as file:
        lock.unlink()

        def kill() -> bool:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and int(entry.name) != os.getpid() and holds(entry, os.fstat(file.fileno())):
                    with suppress(ProcessLookupError):
                        os.kill(int(entry.name), signal.SIGKILL)
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False

        wait_for(kill, "all are killed")


def holds(process: Path, file: os.stat_result) -> bool:
    with suppress(OSError):
        return any(os.path.samestat(entry.stat(), file) for entry in (process / "fd").iterdir())
    return False


WITHOUT_NAMESPACE = pytest.mark.parametrize("kind", [Kind(rung, False) for rung in (LANDLOCK, OFF)], ids=str)


def stop_first_processes(place: Place) -> None:
    """As if they were slow: they have much to kill on a busy machine. A script without walls can do this, too."""
    for pid in find_children()[place.process.pid]:
        if "TOOLRUN_WORKER=" in Path(f"/proc/{pid}/environ").read_text():
            os.kill(pid, signal.SIGSTOP)


@WITHOUT_NAMESPACE
def test_nothing_outlives_a_host_that_is_killed_although_those_who_adopt_orphans_are_slow(kind: Kind) -> None:
    check_possible(kind)
    with open_place(kind) as place:
        begin_all(place, LIMIT)
        wait_for(lambda: have_begun(place), "all are at work")
        stop_first_processes(place)
        place.process.kill()
        place.process.wait()
        try:
            check_nothing_is_left(place)
        finally:
            for lock in locks(place).values():
                end_holders(lock)


@WITHOUT_NAMESPACE
def test_nothing_outlives_a_deadline_although_those_who_adopt_orphans_are_slow(kind: Kind) -> None:
    check_possible(kind)
    with open_place(kind) as place:
        numbers = begin_all(place, 3.0)
        wait_for(lambda: have_begun(place), "all are at work")
        stop_first_processes(place)
        try:
            kinds = {place.end(number).kind for number in numbers}
            assert kinds <= {"timeout", "worker_lost"}, "zombies that nobody reaps count for the fork guard, too"
            check_nothing_is_left(place)
        finally:
            for lock in locks(place).values():
                end_holders(lock)


@pytest.mark.parametrize("kind", [it for it in WALLS if not it.is_own], ids=str)
def test_a_worker_with_more_than_a_thousand_processes_is_ended(kind: Kind) -> None:
    check_possible(kind)
    with open_place(kind) as place:
        lock = place.project / "lock"
        answer = place.call("multiply", count=MANY, path=str(lock))
        assert answer.kind == "worker_lost", answer
        assert "it had more than 1000 processes" in answer.error
        wait_for(lambda: not is_held(lock), "all of its processes have ended")
        assert place.attack("walls")["own"], "the next worker works"
