"""A host that becomes the parent of what its workers leave behind: PID 1 of a container, or a subreaper."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

LIMIT = 60.0
HOST = """
    import asyncio, ctypes, os, subprocess, sys
    from pathlib import Path
    from toolrun.processes.engine import ProcessSpec
    from toolrun.processes.local import LocalEngine
    from toolrun.scripts.uv import run_uv

    class Listener:
        def __init__(self): self.over = asyncio.Event()
        def received(self, data): pass
        def logged(self, line): pass
        def ended(self, exit): self.code = exit.code; self.over.set()

    def zombies():
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] == "Z" and fields[1] == str(os.getpid()):
                found.append(int(entry))
        return set(found)

    async def until(condition):
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.01)

    async def main():
        # Nobody waits for these two before the end: their exit codes belong to whoever started them.
        mine = subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=True)
        forked = os.fork()
        if forked == 0:
            os.setsid()
            os._exit(9)
        await until(lambda: {mine.pid, forked} <= zombies())
        engine, listener = LocalEngine(), Listener()
        # Orphans in the session of the worker, and in sessions of their own; the last one is killed with the worker.
        code = "read _; (true &); (setsid true &); (setsid sh -c 'true & exit 0' &); (setsid sleep 60 &); exit 5"
        spec = ProcessSpec("w", Path(shutil.which("sh")), ("-c", code), Path.cwd(), dict(os.environ))
        engine.start(spec, listener).send(b"go\\n")
        await listener.over.wait()
        assert listener.code == 5, listener.code
        await until(lambda: zombies() == {mine.pid, forked})
        await engine.close()
        await run_uv(["--version"], directory=Path.cwd(), variables=dict(os.environ), on_line=print)
        assert zombies() == {mine.pid, forked}
        assert mine.wait() == 7
        assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 9
        asked = await asyncio.create_subprocess_exec("sh", "-c", "exit 3", start_new_session=True)
        assert await asked.wait() == 3
        print("reaped", os.getpid())

    import shutil
    if "--subreaper" in sys.argv:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    asyncio.run(main())
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers and PID namespaces")


def test_a_subreaper_reaps_what_it_adopted_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(HOST), "--subreaper"], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("reaped ")


def test_pid_1_reaps_what_it_adopted_and_nothing_else() -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", *(() if os.getuid() == 0 else ("--map-root-user",))]
    is_possible = False
    if shutil.which("unshare") is not None:
        probe = subprocess.run([*command, "true"], capture_output=True, timeout=LIMIT, check=False)
        is_possible = probe.returncode == 0
    if not is_possible:
        if os.environ.get("CI") == "true":
            pytest.fail("PID namespaces cannot be made here")
        pytest.skip("PID namespaces cannot be made here")
    done = subprocess.run(
        [*command, sys.executable, "-c", dedent(HOST)], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "reaped 1\n")
