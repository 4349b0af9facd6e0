"""What workers leave behind: children, grandchildren that moved out, more of them than can be counted. And the host."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.bench import LIMIT, Project, is_alive, is_lost, is_timeout, orphan, tagged, until

HOST = Path(__file__).with_name("host.py")


async def test_a_grandchild_that_moved_out_goes_with_its_worker_at_the_deadline(project: Project) -> None:
    async with project.open() as tools:
        first, path = await tools.works(), project.root / "orphan"
        late = await tools.fault(orphan(path) + "time.sleep(60)", timeout=1.0)
        assert is_timeout(late)
        grandchild = int(path.read_text())
        await until(lambda: not is_alive(grandchild), "the end of the grandchild")
        assert await tools.works() != first


async def test_a_grandchild_that_moved_out_goes_with_its_worker_when_that_ends(project: Project) -> None:
    path = project.root / "orphan"
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            assert (await tools.run(orphan(path))).result == first
        grandchild = int(path.read_text())
        assert is_alive(grandchild), "it may be a server that the tool wants to use in its next call"
        assert await tools.works() == first
    assert not is_alive(grandchild)


async def test_a_grandchild_that_holds_all_pipes_does_not_hide_the_death_of_its_worker(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        path = project.root / "child"
        code = f"""
            import subprocess
            child = subprocess.Popen(["sleep", "60"], close_fds=False, start_new_session=True)
            Path({str(path)!r}).write_text(str(child.pid))
            os._exit(3)
        """
        lost = await tools.fault(code)
        assert is_lost(lost)
        assert "exit code 3" in lost.error
        await until(lambda: not is_alive(int(path.read_text())), "the end of the grandchild")
        assert await tools.works() != first


@pytest.mark.parametrize("session", ["", "os.setsid()"], ids=["in the group of its worker", "each in its own session"])
async def test_a_fork_bomb_is_over_at_the_deadline(project: Project, session: str) -> None:
    """Of 200 processes, which end by themselves after a minute. Root is not bound by a limit of processes."""
    async with project.open() as tools:
        first = await tools.works()
        code = f"""
            import signal
            ration, fill = os.pipe()
            os.write(fill, b"x" * 200)
            os.set_blocking(ration, False)
            while True:
                try:
                    more = os.read(ration, 1)
                except BlockingIOError:
                    time.sleep(60)
                    continue
                if os.fork() == 0:
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.alarm(60)
                    {session}
        """
        async with tools.bystander():
            bomb = asyncio.create_task(tools.run(code, timeout=2.0))
            await until(lambda: len(tagged(project.tag)) > 200, "the explosion")
            assert is_timeout(await bomb)
            await until(lambda: len(tagged(project.tag)) <= 1, "the end of the bomb")  # the bystander
        assert await tools.works() != first


@contextmanager
def host(project: Project, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of its own with a worker that runs the code. Killed and reaped at the end, if it still runs."""
    command = [sys.executable, str(HOST), str(project.configure()), code]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def watchdogs(parent: int) -> list[int]:
    """The processes that a host has for the case of its own death."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in found if b"watchdog.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_nothing_survives_a_host_that_is_killed(project: Project) -> None:
    path = project.root / "grandchild"
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{orphan(path)}\ntime.sleep(60)"
    with host(project, code) as process:
        await until(lambda: path.exists(), "the start of the grandchild")
        [watchdog] = watchdogs(process.pid)
        process.kill()
        process.wait()
        await until(lambda: not tagged(project.tag), "the end of all its workers")
        await until(lambda: not is_alive(watchdog), "the end of the watchdog")


async def test_nothing_survives_a_host_that_is_killed_while_a_script_is_imported(project: Project) -> None:
    path = project.root / "grandchild"
    async with project.open():
        pass  # so that it need not be described
    project.at_import(f"{orphan(path)}\ntime.sleep(60)")
    with host(project, "") as process:
        await until(lambda: path.exists(), "the start of the grandchild")
        process.kill()
        process.wait()
        await until(lambda: not tagged(project.tag), "the end of all its workers")


async def test_nothing_survives_a_host_that_knows_nothing_of_sigterm(project: Project) -> None:
    path = project.root / "grandchild"
    with host(project, f"{orphan(path)}\ntime.sleep(60)") as process:
        await until(lambda: path.exists(), "the start of the grandchild")
        process.terminate()
        process.wait(LIMIT)
        await until(lambda: not tagged(project.tag), "the end of all its workers")
    assert process.returncode == -signal.SIGTERM


async def test_a_host_that_ends_well_leaves_no_watchdog(project: Project) -> None:
    path, gate = project.root / "grandchild", project.root / "gate"
    code = f"{orphan(path)}\nwhile not Path({str(gate)!r}).exists(): time.sleep(0.005)"
    with host(project, code) as process:
        await until(lambda: path.exists(), "the start of the grandchild")
        [watchdog] = watchdogs(process.pid)
        gate.touch()
        assert process.wait(LIMIT) == 0
    assert not tagged(project.tag)
    assert not is_alive(watchdog)
