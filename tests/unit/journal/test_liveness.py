"""Which processes are alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from toolrun.journal.liveness import LockFile

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
