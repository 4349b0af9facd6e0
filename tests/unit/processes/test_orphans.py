"""What a killed host leaves behind is waited for, and what belongs to a living one is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolrun.processes.orphans import find_orphans, wait_for_orphans
from toolrun.processes.tag import TAG

LIMIT = 30.0
HOST = f"""
import os, subprocess, sys
variables = {{**os.environ, "{TAG}": f"{{os.getpid()}}-0a1b:1"}}
worker = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=int(sys.argv[1]), env=variables)
print(worker.pid, flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and pidfd")


def test_the_workers_of_a_dead_host_are_waited_for() -> None:
    ours, theirs = os.pipe()[::-1]
    command = [sys.executable, "-c", HOST, str(theirs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[theirs]) as host:
        os.close(theirs)
        assert host.stdout is not None
        worker = int(host.stdout.readline())
        try:
            assert find_orphans(host.pid) == []  # the host lives
            assert wait_for_orphans(host.pid, 0.0)
            host.kill()
            host.wait(LIMIT)
            assert find_orphans(host.pid) == [worker]
            assert not wait_for_orphans(host.pid, 0.0)
        finally:
            os.close(ours)  # so the worker ends
        assert wait_for_orphans(host.pid, LIMIT)
        assert find_orphans(host.pid) == []


def test_a_host_without_workers_leaves_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as host:
        host.wait(LIMIT)
    assert wait_for_orphans(host.pid, 0.0)


ENGINE = """
import asyncio, sys
from pathlib import Path
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.local import LocalEngine
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.system_support import SystemSupport, find_support
from toolrun.processes.sandbox.policy import STANDARD, ProjectPaths, interpreter_roots, make_policy
from toolrun.config.model import Permissions

class Listener:
    def received(self, data):
        if b"ready" in data:
            print(data, flush=True)
    def logged(self, line): print(line, file=sys.stderr, flush=True)
    def ended(self, exit): pass

async def main(root, script, rung):
    program = Path(sys.executable)
    support = SystemSupport("landlock", find_support(root / "cache").abi) if rung == "landlock" else None
    policy = make_policy(STANDARD, Permissions(), "", ProjectPaths(root), program, interpreter_roots(program))
    spec = ProcessSpec("x", program, (), root)
    sandboxes = Sandboxes(root / "cache", ProjectPaths(root), support=support)
    spec = await sandboxes.confine(spec, policy, [str(script)], None)
    LocalEngine().start(spec, Listener())
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
"""
ESCAPING = """
import os, subprocess, sys

# Without the tag, in a session of its own, and no child of the worker.
code = "import os; file = os.open('alive', os.O_WRONLY); os.fork() and os._exit(0); os.write(file, b'.'); "
code += "import threading; threading.Event().wait()"
subprocess.run([sys.executable, "-c", code], env={}, start_new_session=True)

def f() -> None:
    "Nothing."
"""


@pytest.mark.parametrize("rung", ["highest", "landlock"])
def test_what_a_confined_worker_has_started_is_gone_when_its_host_has_no_orphans(tmp_path: Path, rung: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(ESCAPING)
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    keeper = os.open(tmp_path / "alive", os.O_WRONLY)
    command = [sys.executable, "-c", ENGINE, str(tmp_path), str(script), rung]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as host:
            assert host.stdout is not None
            try:
                assert b"ready" in host.stdout.readline()
                os.close(keeper)
                os.set_blocking(alive, True)
                assert os.read(alive, 1) == b"."
                assert find_orphans(host.pid) == []  # the host lives
            finally:
                host.kill()
            host.wait(LIMIT)
            assert wait_for_orphans(host.pid, LIMIT)
            assert find_orphans(host.pid) == []
            os.set_blocking(alive, False)
            assert os.read(alive, 1) == b"", "a process that holds the pipe is alive"
    finally:
        os.close(alive)


LINGERING = """
import asyncio, sys
from pathlib import Path
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.local import LocalEngine

class Listener:
    def received(self, data): pass
    def logged(self, line): pass
    def ended(self, exit): pass

async def main():
    program = "import sys; sys.stdin.read()"
    LocalEngine(linger=60.0).start(ProcessSpec("x", Path(sys.executable), ("-c", program), Path("/")), Listener())
    await asyncio.sleep(0.2)  # the watchdog starts after the worker
    print("started", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_host_with_workers_elsewhere_is_waited_for_until_they_must_have_ended() -> None:
    """By the watchdog, which has nothing left to kill here."""
    with subprocess.Popen([sys.executable, "-c", LINGERING], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"started\n"
        host.kill()
        host.wait(LIMIT)
    until = time.monotonic() + LIMIT
    while [it for it in find_orphans(host.pid) if not _is_watchdog(it)]:
        assert time.monotonic() < until
        time.sleep(0.01)
    [watchdog] = find_orphans(host.pid)
    assert not wait_for_orphans(host.pid, 0.0)
    os.kill(watchdog, signal.SIGKILL)
    assert wait_for_orphans(host.pid, LIMIT)


def _is_watchdog(pid: int) -> bool:
    return b"watchdog.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
