"""A process that holds secrets keeps its memory to itself. Tried in another process: there is no way back."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the flag")

PROGRAM = """
import ctypes, os, subprocess, sys
from pathlib import Path
from toolrun import ToolExecutor, ToolManager

ASK = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"

def is_dumpable():
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)

assert is_dumpable() == 1
ToolExecutor(ToolManager())
assert is_dumpable() == 1, "without secrets it is as it was"
executor = ToolExecutor(ToolManager(), secrets={"KEY": "a-secret-value"})
assert is_dumpable() == 0
started = subprocess.run([sys.executable, "-c", ASK], stdout=subprocess.PIPE, text=True, check=True)
assert started.stdout.split() == ["1"], "what it starts is as it was"
child = subprocess.Popen(["/bin/sleep", "60"])
try:
    while not Path(f"/proc/{child.pid}/environ").read_bytes():
        pass  # it is in the middle of its start
    for name in ("environ", "statm", "stat"):
        assert Path(f"/proc/{child.pid}/{name}").read_bytes()
    os.close(os.pidfd_open(child.pid))
    assert list(Path("/proc/self/fd").iterdir())
    assert Path("/proc/self/statm").read_bytes()
finally:
    child.kill()
    child.wait()
del executor
assert is_dumpable() == 0, "what was in memory may still be there"
print("done")
"""


def test_a_process_that_holds_secrets_cannot_be_dumped_and_what_it_starts_can() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
