"""What workers leave behind: children, grandchildren that moved out, more of them than can be counted. And the host."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent

import pytest

from faults.bench import LIMIT, Project, chain, is_alive, is_locked, is_lost, orphan, tagged, until

HOST = Path(__file__).with_name("host.py")


async def test_a_grandchild_that_moved_out_goes_with_its_worker_at_the_deadline(project: Project) -> None:
    async with project.open() as tools:
        first, path = await tools.works(), project.root / "orphan"
        await tools.late(orphan(path) + "time.sleep(60)", path)
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
        assert "exit code 3" in (lost.error or "")
        await until(lambda: not is_alive(int(path.read_text())), "the end of the grandchild")
        assert await tools.works() != first


async def test_what_forks_and_dies_all_the_time_goes_with_its_worker_at_the_deadline(project: Project) -> None:
    path = project.root / "chain"
    async with project.open() as tools:
        await tools.works()
        await tools.late(f"{chain(path)}\ntime.sleep(60)", path)
        await until(lambda: not is_locked(path), "the end of the chain")
        await tools.works()


async def test_what_forks_and_dies_all_the_time_goes_with_its_worker_when_that_ends(project: Project) -> None:
    path = project.root / "chain"
    async with project.open() as tools:
        for _ in range(5):  # once could be luck
            await tools.works()
            assert is_lost(await tools.fault(f"{chain(path)}\nos._exit(3)"))
            await until(lambda: not is_locked(path), "the end of the chain")


async def test_a_child_that_forks_again_is_not_told_of_descriptors_that_it_does_not_have(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolrun.worker")
    async with project.open() as tools:
        assert (await tools.run(orphan(project.root / "orphan"))).success
    assert "Bad file descriptor" not in caplog.text


BOMBS = pytest.mark.parametrize(
    "session", ["", "os.setsid()"], ids=["in the group of its worker", "each in its own session"]
)


def bomb(size: int, session: str, exploded: Path) -> str:
    """Code that becomes so many processes, which end by themselves after a minute."""
    return dedent(f"""
        import signal
        ration, fill = os.pipe()
        os.write(fill, b"x" * {size})
        os.set_blocking(ration, False)
        while True:
            try:
                os.read(ration, 1)
            except BlockingIOError:
                Path({str(exploded)!r}).touch()
                time.sleep(60)
                continue
            if os.fork() == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(60)
                {session}
    """)


@BOMBS
async def test_a_fork_bomb_is_over_at_the_deadline(project: Project, session: str) -> None:
    async with project.elsewhere(), project.open() as tools:
        first, exploded = await tools.works(), project.root / "exploded"
        await tools.late(bomb(200, session, exploded), exploded)
        assert await tools.works() != first


@BOMBS
async def test_a_fork_bomb_is_over_when_it_has_too_many_processes(
    project: Project, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.processes.fork_guard.MAX_PROCESSES", 100)
    async with project.elsewhere(), project.open() as tools:
        first = await tools.works()
        lost = await tools.fault(bomb(400, session, project.root / "exploded"))
        assert is_lost(lost)
        assert "it had more than 100 processes" in lost.detail
        assert await tools.works() != first


async def test_many_processes_one_after_the_other_are_no_bomb(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.processes.fork_guard.MAX_PROCESSES", 10)
    async with project.open() as tools:
        first = await tools.works()
        code = """
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                if os.fork() == 0:
                    os._exit(0)
                os.wait()
        """
        async with tools.bystander():
            assert (await tools.run(code)).result == first


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
    return [int(pid) for pid in found if "watchdog.py" in _command(int(pid))]


def _command(pid: int) -> str:
    with suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


async def test_nothing_survives_a_host_that_is_killed(project: Project) -> None:
    path = project.root / "grandchild"
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{orphan(path)}\ntime.sleep(60)"
    async with project.elsewhere():
        with host(project, code) as process:
            await until(lambda: path.exists(), "the start of the grandchild")
            [watchdog] = watchdogs(process.pid)
            process.kill()
            process.wait()
        await until(lambda: not is_alive(watchdog), "the end of the watchdog")


async def test_what_forks_and_dies_all_the_time_does_not_survive_a_host_that_is_killed(project: Project) -> None:
    path, begun = project.root / "chain", project.root / "begun"
    async with project.elsewhere():
        with host(project, f"{chain(path)}\nPath({str(begun)!r}).touch()\ntime.sleep(60)") as process:
            await until(begun.exists, "the start of the chain")
            process.kill()
            process.wait()
        await until(lambda: not is_locked(path), "the end of the chain")


async def test_nothing_survives_a_host_that_is_killed_while_a_script_is_imported(project: Project) -> None:
    path = project.root / "grandchild"
    async with project.elsewhere():  # so that it need not be described
        project.at_import(f"{orphan(path)}\ntime.sleep(60)")
        with host(project, "") as process:
            await until(lambda: path.exists(), "the start of the grandchild")
            process.kill()
            process.wait()


async def test_nothing_survives_a_host_that_knows_nothing_of_sigterm(project: Project) -> None:
    path = project.root / "grandchild"
    async with project.elsewhere():
        with host(project, f"{orphan(path)}\ntime.sleep(60)") as process:
            await until(lambda: path.exists(), "the start of the grandchild")
            process.terminate()
            process.wait(LIMIT)
        assert process.returncode == -signal.SIGTERM


async def test_a_host_that_ends_well_leaves_no_watchdog(project: Project) -> None:
    path, gate = project.root / "grandchild", project.root / "gate"
    code = f"{orphan(path)}\nwhile not Path({str(gate)!r}).exists(): time.sleep(0.005)"
    async with project.elsewhere():
        before = tagged(project.tag)
        with host(project, code) as process:
            await until(lambda: path.exists(), "the start of the grandchild")
            [watchdog] = watchdogs(process.pid)
            gate.touch()
            assert process.wait(LIMIT) == 0
        assert tagged(project.tag) == before
        assert not is_alive(watchdog)
