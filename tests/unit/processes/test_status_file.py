"""What a process tells of its workers, and what another makes of it. Here both are this one; two are in tests/e2e."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from toolrun.processes import status_file as module
from toolrun.processes.status_file import Board, Told, read_boards
from toolrun.scripts.pool_state import State
from toolrun.scripts.pooled_worker import NoPool, PooledWorker

OWN = Path("/proc/self")
LIMIT = 30.0
pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")


@pytest.fixture(autouse=True)
def looks_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_INTERVAL", 0.0)


def member(state: State = State.READY, calls: int = 0, load: int = 0) -> PooledWorker:
    made = PooledWorker("test", NoPool(), 0.0)
    made.state, made.calls, made.load = state, calls, load
    return made


async def shown(expected: dict[str, Told]) -> None:
    """Returns when that is what is told."""
    async with asyncio.timeout(LIMIT):
        while read_boards(OWN) != expected:  # noqa: ASYNC110  as another process would look, which nothing tells
            await asyncio.sleep(0)


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def another_board(content: bytes) -> Iterator[None]:
    with os.fdopen(os.memfd_create("toolrun-workers"), "wb", buffering=0) as file:
        file.write(content)
        yield


@pytest.mark.parametrize(
    ("state", "load", "word"),
    [
        (State.STARTING, 0, "starting"),
        (State.READY, 0, "ready"),
        (State.READY, 2, "busy"),
        (State.DRAINING, 1, "draining"),
        (State.ENDED, 0, "ending"),
    ],
)
async def test_the_state_of_a_worker_is_told_in_a_word(state: State, load: int, word: str) -> None:
    board = Board()
    board.add("e:1", member(state, calls=7, load=load))
    await shown({"e:1": Told(word, 7, load)})
    board.remove("e:1")


async def test_what_changes_is_told_anew() -> None:
    board, first, second = Board(), member(), member()
    board.add("e:1", first)
    await shown({"e:1": Told("ready", 0, 0)})
    board.add("e:2", second)
    first.calls, first.load = 3, 1
    await shown({"e:1": Told("busy", 3, 1), "e:2": Told("ready", 0, 0)})
    board.remove("e:1")
    await shown({"e:2": Told("ready", 0, 0)})
    board.remove("e:2")


async def test_a_worker_that_is_ready_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_INTERVAL", 10 * LIMIT)
    board, starting = Board(), member(State.STARTING)
    board.add("e:1", starting)
    await shown({"e:1": Told("starting", 0, 0)})
    starting.received(b'{"ready": {"functions": []}}\n')
    await shown({"e:1": Told("ready", 0, 0)})
    board.remove("e:1")


async def test_with_the_last_worker_all_is_gone_and_the_next_is_told_again() -> None:
    board = Board()
    for _ in range(2):
        board.add("e:1", member())
        await shown({"e:1": Told("ready", 0, 0)})
        board.remove("e:1")
        assert read_boards(OWN) == {}


async def test_a_worker_that_is_gone_before_it_was_looked_at_leaves_nothing() -> None:
    board, starting = Board(), member(State.STARTING)
    board.add("e:1", starting)
    board.remove("e:1")
    starting.received(b'{"ready": {"functions": []}}\n')
    await asyncio.sleep(0)  # now it is told that it is ready
    await asyncio.sleep(0)
    assert read_boards(OWN) == {}


async def test_several_boards_of_a_process_are_read_together() -> None:
    boards = {f"{name}:1": Board() for name in "ab"}
    for mark, board in boards.items():
        board.add(mark, member())
    await shown(dict.fromkeys(boards, Told("ready", 0, 0)))
    for mark, board in boards.items():
        board.remove(mark)


async def test_who_reads_gets_all_of_one_version() -> None:
    board, members = Board(), {f"e:{number}": member() for number in range(200)}
    for mark, it in members.items():
        board.add(mark, it)
    await shown(dict.fromkeys(members, Told("ready", 0, 0)))
    ended = Event()

    def read() -> list[set[int]]:
        seen = []
        while not ended.is_set():
            told = read_boards(OWN)
            seen.append({it.calls for it in told.values()} if told.keys() == members.keys() else set())
        return seen

    reading = asyncio.create_task(asyncio.to_thread(read))
    for _ in range(300):
        for it in members.values():
            it.calls += 1
        await asyncio.sleep(0)
    ended.set()
    versions = await reading
    assert len(set(map(frozenset, versions))) > 1, "nothing was written while it was read"
    assert all(len(calls) == 1 for calls in versions)
    for mark in members:
        board.remove(mark)


async def test_without_descriptors_nothing_is_told_until_there_are_some() -> None:
    board = Board()
    with no_descriptors_left():
        board.add("e:1", member())
        for _ in range(5):
            await asyncio.sleep(0)
    assert read_boards(OWN) == {}
    await shown({"e:1": Told("ready", 0, 0)})
    board.remove("e:1")


@pytest.mark.parametrize(
    "content", [b"", b'{"e:1": ["busy", 1', b"[1]", b'{"e:1": 5}', b'{"e:1": ["busy"]}', b'{"e:1": ["busy", [], 0]}']
)
async def test_what_another_version_of_toolrun_tells_is_no_obstacle(content: bytes) -> None:
    board = Board()
    board.add("e:2", member())
    with another_board(content):
        await shown({"e:2": Told("ready", 0, 0)})
    board.remove("e:2")


def test_from_a_file_that_has_taken_the_place_of_a_board_nothing_is_taken() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"e:1": ["busy", 1, 1]}')
        assert module._read(OWN / "fd" / str(reading)) == {}
        assert os.read(reading, 100) == b'{"e:1": ["busy", 1, 1]}'
    finally:
        os.close(reading)
        os.close(writing)


def test_of_a_process_that_has_ended_nothing_is_read(tmp_path: Path) -> None:
    assert read_boards(tmp_path / "4711") == {}
