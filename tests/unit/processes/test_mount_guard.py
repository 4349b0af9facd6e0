"""A file that was replaced is noticed; one that was written to, removed or never there is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from toolrun.processes.mount_guard import MountGuard


def replace(path: Path) -> None:
    new = path.with_name("new")
    new.write_text("new")
    new.replace(path)


async def test_a_worker_is_told_of_when_a_file_is_replaced_and_no_other_worker(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    second.touch()
    told, others = asyncio.Event(), asyncio.Event()
    guard = MountGuard()
    held = guard.hold([first, tmp_path / "nothing"]), guard.hold([second])
    guard.add("1", held[0], told.set)
    guard.add("2", held[1], others.set)
    second.write_text("written to")
    replace(first)
    async with asyncio.timeout(30):
        await told.wait()
    told.clear()
    async with asyncio.timeout(30):
        await told.wait()  # again, as the worker is still there
    assert not others.is_set()
    guard.remove("1")
    guard.release(held[0])
    told.clear()
    replace(second)
    async with asyncio.timeout(30):
        await others.wait()
    assert not told.is_set()
    guard.remove("2")
    guard.release(held[1])


async def test_a_file_that_is_removed_and_made_again_is_another_one(tmp_path: Path) -> None:
    """Also on a file system that gives numbers away again."""
    told = asyncio.Event()
    guard = MountGuard()
    for _ in range(3):
        path = tmp_path / "file"
        path.touch()
        held = guard.hold([path])
        path.unlink()
        path.touch()
        guard.add("1", held, told.set)
        async with asyncio.timeout(30):
            await told.wait()
        told.clear()
        guard.remove("1")
        guard.release(held)


def test_a_file_is_held_once_for_all_workers_and_let_go_of_with_the_last(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    def descriptors() -> int:
        return sum(1 for it in Path("/proc/self/fd").iterdir() if it.is_symlink() and it.readlink() == path)

    guard = MountGuard()
    first, second = guard.hold([path, path]), guard.hold([path])
    assert descriptors() == 1
    guard.release(first)
    assert descriptors() == 1
    guard.release(second)
    assert descriptors() == 0


def test_what_does_not_exist_cannot_be_covered(tmp_path: Path) -> None:
    assert not MountGuard().hold([tmp_path / "nothing"])
