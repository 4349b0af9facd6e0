"""A host that forks: its child gets a copy of every descriptor, and must not keep alive what ends with the host."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from faults.bench import Project, is_alive, orphan, until
from faults.test_tree import watchdogs
from support.forked import in_a_child
from toolrun import Runtime, ToolExecutor, tool

HOST = Path(__file__).with_name("forking_host.py")
MOMENTS = ["on the loop", "in a thread", "at a start"]


class ForkedHost:
    """A host with a worker, a grandchild that moved out, a watchdog, and at least one child that lives on."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self._directory = directory

    @property
    def children(self) -> list[int]:
        """The processes that the host forked; none before a call was answered afterwards."""
        path = self._directory / "children"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def has_forked(self) -> bool:
        """Whether all children live, and the host has answered a call since they were forked."""
        return bool(self.children) and all((self._directory / str(child)).exists() for child in self.children)

    @property
    def watchdog(self) -> int:
        [watchdog] = watchdogs(self.process.pid)
        return watchdog

    def others(self) -> set[int]:
        """The other processes that the host started: worker, watchdog."""
        found = set()
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            found |= {int(pid) for pid in (thread / "children").read_text().split()}
        return found - set(self.children)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def forked_host(project: Project, code: str, moment: str) -> Iterator[ForkedHost]:
    directory = project.root / "forked"
    directory.mkdir()
    command = [sys.executable, str(HOST), str(project.configure()), code, str(directory), moment]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        host = ForkedHost(process, directory)
        try:
            yield host
        finally:
            process.kill()
            for child in host.children:
                with suppress(ProcessLookupError):
                    os.kill(child, 9)


def shared_files(pid: int) -> set[str]:
    """The pipes and files in memory that a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            link = str(entry.readlink())
            if re.match(r"pipe:|/memfd:|anon_inode:\[pidfd\]", link):
                found.add(link)
    return found


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_forked_child_has_no_pipe_of_a_worker_or_watchdog(project: Project, moment: str) -> None:
    async with project.elsewhere():
        with forked_host(project, orphan(project.root / "grandchild"), moment) as host:
            await until(host.has_forked, "an answer after the fork")
            for child in host.children:
                assert shared_files(child) == set()
            for process in host.others():
                assert shared_files(process) <= shared_files(host.process.pid), "a pipe that only others have"


@pytest.mark.parametrize("moment", MOMENTS)
async def test_nothing_survives_a_host_that_is_killed_but_the_child_that_it_forked(
    project: Project, moment: str
) -> None:
    path = project.root / "grandchild"
    async with project.elsewhere():
        with forked_host(project, orphan(path), moment) as host:
            await until(host.has_forked, "an answer after the fork")
            grandchild, watchdog, others = int(path.read_text()), host.watchdog, host.others()
            assert is_alive(grandchild)
            host.kill()
            await until(lambda: not is_alive(watchdog), "the end of the watchdog")
            await until(lambda: not is_alive(grandchild), "the end of the grandchild")
            await until(lambda: not any(is_alive(process) for process in others), "the end of the worker")
            assert all(is_alive(child) for child in host.children)


@tool(isolated=True)
def own_process() -> int:
    """The number of the worker that runs it."""
    return os.getpid()


def described(executor: ToolExecutor, name: str, **arguments: str) -> str:
    result = executor.execute_sync(name, arguments)
    return str(result.error or result.result)


async def test_in_a_forked_child_a_script_says_whose_it_is_and_the_rest_works(project: Project) -> None:
    async with project.open() as tools:
        executor, configuration = tools.runtime.executor, project.configure()
        tools.runtime.manager.add(own_process)
        worker, isolated = await tools.works(), (await executor.execute("own_process")).result

        async def anew() -> object:
            async with Runtime.open(configuration) as runtime:
                return (await runtime.executor.execute("subject", {"code": ""})).result

        def work() -> str:
            answers = (described(executor, "subject", code=""), asyncio.run(anew()), described(executor, "own_process"))
            return "|".join(map(str, answers))

        refusal, *answers = (await asyncio.to_thread(in_a_child, work)).split("|")
        assert refusal == (
            "'subject' belongs to the process that this one was forked from. Open a Runtime after the fork."
        )
        assert len({int(answer) for answer in answers} - {worker, isolated}) == 2, "two workers of the child"
        assert await tools.works() == worker
        assert (await executor.execute("own_process")).result == isolated
