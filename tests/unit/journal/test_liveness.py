"""Which processes are alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import time_ns

import pytest

from toolrun.journal.call_record import boot_id
from toolrun.journal.database import open_writer
from toolrun.journal.liveness import LockFile
from toolrun.journal.statements import sql

HOLDER = """
import sys
from pathlib import Path
from toolrun.journal.liveness import LockFile
LockFile.open(Path(sys.argv[1])).hold(int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def start_holder(path: Path, process: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(path), str(process)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def end(holder: subprocess.Popen[str]) -> None:
    holder.communicate(timeout=30)


def test_a_process_is_alive_from_its_lock_to_its_end_even_by_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    locks = LockFile.open(path)
    assert not locks.is_alive(7)
    holder = start_holder(path, 7)
    assert locks.is_alive(7)
    assert not locks.is_alive(6)
    assert not locks.is_alive(8)
    holder.send_signal(signal.SIGKILL)
    end(holder)
    assert not locks.is_alive(7)
    locks.close()


def test_a_stopped_process_is_alive(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    locks = LockFile.open(path)
    holder = start_holder(path, 3)
    holder.send_signal(signal.SIGSTOP)
    assert locks.is_alive(3)
    holder.send_signal(signal.SIGCONT)
    end(holder)
    locks.close()


def test_a_process_sees_itself_and_a_second_user_does_not_drop_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = LockFile.open(path)
    first.hold(5)
    second = LockFile.open(path)
    assert second is first
    second.close()
    assert first.is_alive(5)
    asked = subprocess.run(
        [sys.executable, "-c", "import sys; from pathlib import Path; from toolrun.journal.liveness import LockFile\n"
         "print(LockFile.open(Path(sys.argv[1])).is_alive(5))", str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout == "True\n"
    first.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_no_lock_and_does_not_drop_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    locks = LockFile.open(path)
    locks.hold(4)
    program = """
import os, sys
from pathlib import Path
from toolrun.journal.liveness import LockFile
path = Path(sys.argv[1])
own = LockFile.open(path)
own.hold(9)
read, write = os.pipe()
if os.fork() == 0:
    mine = LockFile.open(path)
    os.write(write, f"{mine is own} {mine.is_alive(9)} {mine.is_alive(4)} ".encode())
    os._exit(0)
os.wait()
os.write(write, str(own.is_alive(9)).encode())
os.close(write)
print(os.read(read, 100).decode())
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False True True True\n"
    locks.close()


class Elder:
    """A process that wrote to a journal before its lock file was deleted, as its row describes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.started_at = time_ns() // 1000

    def looks_alive(self, *, started_at: int | None = None, boot: str | None = None) -> bool:
        connection = open_writer(self._path, is_power_safe=False)
        named = (self.running.pid, boot_id() if boot is None else boot)
        at = self.started_at if started_at is None else started_at
        row = connection.execute(sql("register_process"), (None, *named, "test", "1", at)).lastrowid
        assert row is not None
        locks = LockFile.open(self._path.with_name("journal.db-lock"))
        locks.learn(connection)
        try:
            return locks.is_alive(row)
        finally:
            locks.close()
            connection.close()


@pytest.fixture
def elder(tmp_path: Path) -> Iterator[Elder]:
    elder = Elder(tmp_path / "journal.db")
    yield elder
    elder.running.communicate(b"\n", timeout=30)


def test_a_process_that_is_older_than_the_lock_file_is_looked_for_in_the_process_table(elder: Elder) -> None:
    assert elder.looks_alive()


def test_a_process_of_before_the_machine_was_started_is_dead(elder: Elder) -> None:
    assert not elder.looks_alive(boot="of yesterday")


def test_a_process_whose_number_is_used_again_is_dead(elder: Elder) -> None:
    assert not elder.looks_alive(started_at=elder.started_at - 3_600_000_000)


def test_a_process_that_has_ended_and_was_not_waited_for_is_dead(elder: Elder) -> None:
    elder.running.kill()
    os.waitid(os.P_PID, elder.running.pid, os.WEXITED | os.WNOWAIT)
    assert not elder.looks_alive()


def test_a_process_that_is_gone_is_dead(elder: Elder) -> None:
    elder.running.kill()
    elder.running.wait(30)
    assert not elder.looks_alive()


def test_a_process_that_is_younger_than_the_lock_file_has_only_its_lock(tmp_path: Path, elder: Elder) -> None:
    LockFile.open(tmp_path / "journal.db-lock").close()
    assert not elder.looks_alive(started_at=time_ns() // 1000 + 1_000_000)
