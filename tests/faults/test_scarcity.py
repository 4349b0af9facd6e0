"""What a worker needs and does not get: its environment, uv, a disk with room, file descriptors."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from faults.bench import LIMIT, Project, Tools, children, is_gone, is_lost, is_unavailable, tagged, until
from toolrun import ErrorKind, SideEffects


@asynccontextmanager
async def bare(project: Project) -> AsyncIterator[Tools]:
    """The project with a cache of its own, in which its scripts are described, but have no environment any more.

    A call that has no need of it is under way all the time.
    """
    project.cache = project.root / "cache"
    async with project.open() as tools, tools.bystander():
        shutil.rmtree(project.cache / "environments")
        yield tools


async def test_an_environment_that_is_deleted_under_a_worker_is_made_again_for_the_next(project: Project) -> None:
    project.cache = project.root / "cache"
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            shutil.rmtree(project.cache)
            assert await tools.works() == first, "it has all that it needs"
            os.kill(first, signal.SIGKILL)
            result = await tools.run()
            assert result.success or is_lost(result)
            assert await tools.works() != first


async def test_an_environment_whose_interpreter_is_gone_is_made_again(project: Project) -> None:
    project.cache = project.root / "cache"
    async with project.open() as tools, tools.bystander():
        [interpreter] = (project.cache / "environments").glob("*/venv-*/bin/python")
        interpreter.unlink()
        await tools.works()


async def test_uv_that_is_killed_is_named_and_the_next_call_has_it_start_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(project.root / "uv"))
    async with bare(project) as tools:
        with held_up(project.root / "uv"):
            call = asyncio.create_task(tools.run())
            await until(lambda: _uv(project), "the start of uv")
            os.kill(_uv(project)[0], signal.SIGKILL)
            killed = await call
        assert is_unavailable(killed)
        assert "uv was killed" in (killed.error or "")
        await tools.works()
    assert len(list(project.cache.glob("environments/*/venv-*"))) == 1, "what uv had left is gone"


async def test_uv_that_hangs_holds_up_a_call_until_its_deadline(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(project.root / "uv"))
    async with bare(project) as tools:
        with held_up(project.root / "uv"):
            late = await asyncio.gather(tools.run(timeout=0.3), tools.run(timeout=0.6))
        for result in late:
            assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.NOT_STARTED)
        await tools.works()


async def test_uv_that_hangs_is_killed_when_all_is_closed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(project.root / "uv"))
    async with project.elsewhere():
        async with bare(project):
            pass
        with held_up(project.root / "uv"):
            async with project.open() as tools:
                call = asyncio.create_task(tools.run())
                await until(lambda: _uv(project), "the start of uv")
            assert is_unavailable(await call)
            assert not _uv(project)


@contextmanager
def held_up(cache: Path) -> Iterator[None]:
    """Whatever needs this cache of uv waits."""
    with (cache / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _uv(project: Project) -> list[int]:
    found = []
    for pid in tagged(project.tag):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text() == "uv\n":
                found.append(pid)
    return found


async def test_without_uv_there_is_an_answer_that_says_what_to_install(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise FileNotFoundError("no uv here")

    async with bare(project) as tools:
        with monkeypatch.context() as patch:
            patch.setattr("uv.find_uv_bin", missing)
            refused = await tools.run()
        assert is_unavailable(refused)
        assert "pip install uv" in (refused.error or "")
        first = await tools.works()
        monkeypatch.setattr("uv.find_uv_bin", missing)
        os.kill(first, signal.SIGKILL)
        await until(lambda: is_gone(first), "the end of the worker")
        await tools.works()  # an environment that is there needs no uv


@contextmanager
def small_disk(path: Path) -> Iterator[None]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk needs the right to mount one: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill(directory: Path) -> Path:
    """A file that leaves no room for another byte."""
    path = directory / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    return path


async def test_a_full_disk_is_named_and_costs_no_worker_that_runs(project: Project) -> None:
    project.cache = project.root / "small"
    with small_disk(project.cache):
        async with project.open() as tools:
            async with tools.bystander():
                shutil.rmtree(project.cache / "environments")
                filler = fill(project.cache)
                refused = await tools.run()
                assert is_unavailable(refused)
                assert "the disk is full" in (refused.error or "")
            filler.unlink()
            await tools.works()


async def test_a_full_disk_costs_the_time_of_a_description_and_not_the_tool(project: Project) -> None:
    async with project.elsewhere():
        environments = project.cache / "environments"
        project.cache = project.root / "small"
        with small_disk(project.cache):
            (project.cache / "environments").symlink_to(environments)
            fill(project.cache)
            async with project.open() as tools:
                assert tools.runtime.problems == []
                await tools.works()


async def test_without_file_descriptors_every_call_has_an_answer_and_nothing_is_lost(project: Project) -> None:
    async with project.open() as tools:
        refused = 0
        async with tools.bystander():
            for spare in range(16):
                with descriptors(spare):
                    result = await tools.run(timeout=LIMIT)
                if not result.success:
                    assert is_unavailable(result), result
                    refused += 1
                first = await tools.works()
                os.kill(first, signal.SIGKILL)
                await until(partial(is_gone, first), "the end of the worker")
        assert 0 < refused < 16


@contextmanager
def descriptors(spare: int) -> Iterator[None]:
    """So many more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = []
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    # Above the highest there is room for all that are wanted: below it there may be no gap.
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + spare, hard))
    try:
        while True:
            fillers.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for _ in range(spare):
            os.close(fillers.pop())
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


async def test_a_worker_that_dies_when_there_is_no_file_descriptor_is_noticed(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            with descriptors(0):
                lost = await tools.run("os._exit(3)")
            assert is_lost(lost)
            assert "exit code 3" in (lost.error or "")
            assert await tools.works() != first


async def test_a_worker_that_cannot_be_watched_is_not_left_running(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async with project.open() as tools:
        async with tools.bystander():
            running = children()
            with monkeypatch.context() as patch:
                patch.setattr(os, "pidfd_open", refuse)
                refused = await tools.run()
            assert is_unavailable(refused)
            assert "Too many open files" in (refused.error or "")
            assert children() == running
        await tools.works()
