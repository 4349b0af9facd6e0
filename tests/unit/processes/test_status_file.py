"""What a process publishes of its workers, and what another reads. Here both are this one; two are in tests/e2e."""

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
from toolrun.processes.engine import Exit, WorkerStatus
from toolrun.processes.status_file import StatusFile, read_status

OWN = Path("/proc/self")
LIMIT = 30.0
pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")


@pytest.fixture(autouse=True)
def updates_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_INTERVAL", 0.0)


class Reporter:
    """A listener that says of its worker what the test says."""

    def __init__(self, state: str = "ready") -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.state = state
        self.calls = 0
        self.running = 0

    def status(self) -> WorkerStatus:
        return WorkerStatus(self.state, self.calls, self.running)

    def be_ready(self) -> None:
        self.state = "ready"
        self.ready.set_result(None)

    def received(self, data: bytes) -> None: ...

    def logged(self, line: str) -> None: ...

    def ended(self, exit: Exit) -> None: ...


async def published(expected: dict[str, WorkerStatus]) -> None:
    """Returns when that is what another process reads."""
    async with asyncio.timeout(LIMIT):
        while read_status(OWN) != expected:  # noqa: ASYNC110  as another process would look, which nothing tells
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
def another_status_file(content: bytes) -> Iterator[None]:
    with os.fdopen(os.memfd_create("toolrun-workers"), "wb", buffering=0) as file:
        file.write(content)
        yield


async def test_a_listener_without_a_status_is_left_out() -> None:
    class Listener:
        def received(self, data: bytes) -> None: ...

        def logged(self, line: str) -> None: ...

        def ended(self, exit: Exit) -> None: ...

    file = StatusFile()
    file.add("e:1", Listener())
    file.add("e:2", Reporter())
    await published({"e:2": WorkerStatus("ready", 0, 0)})
    for tag in ("e:1", "e:2"):
        file.remove(tag)


async def test_changes_are_published() -> None:
    file, first, second = StatusFile(), Reporter(), Reporter()
    file.add("e:1", first)
    await published({"e:1": WorkerStatus("ready", 0, 0)})
    file.add("e:2", second)
    first.state, first.calls, first.running = "busy", 3, 1
    await published({"e:1": WorkerStatus("busy", 3, 1), "e:2": WorkerStatus("ready", 0, 0)})
    file.remove("e:1")
    await published({"e:2": WorkerStatus("ready", 0, 0)})
    file.remove("e:2")


async def test_a_worker_that_becomes_ready_is_published_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_INTERVAL", 10 * LIMIT)
    file, starting = StatusFile(), Reporter("starting")
    file.add("e:1", starting)
    await published({"e:1": WorkerStatus("starting", 0, 0)})
    starting.be_ready()
    await published({"e:1": WorkerStatus("ready", 0, 0)})
    file.remove("e:1")


async def test_the_file_goes_with_the_last_worker_and_comes_back_with_the_next() -> None:
    file = StatusFile()
    for _ in range(2):
        file.add("e:1", Reporter())
        await published({"e:1": WorkerStatus("ready", 0, 0)})
        file.remove("e:1")
        assert read_status(OWN) == {}


async def test_a_worker_that_is_gone_before_it_was_looked_at_leaves_nothing() -> None:
    file, starting = StatusFile(), Reporter("starting")
    file.add("e:1", starting)
    file.remove("e:1")
    starting.be_ready()
    await asyncio.sleep(0)  # now the callback runs
    await asyncio.sleep(0)
    assert read_status(OWN) == {}


async def test_several_status_files_of_a_process_are_read_together() -> None:
    files = {f"{name}:1": StatusFile() for name in "ab"}
    for tag, file in files.items():
        file.add(tag, Reporter())
    await published(dict.fromkeys(files, WorkerStatus("ready", 0, 0)))
    for tag, file in files.items():
        file.remove(tag)


async def test_a_reader_gets_all_of_one_version() -> None:
    file, workers = StatusFile(), {f"e:{number}": Reporter() for number in range(200)}
    for tag, it in workers.items():
        file.add(tag, it)
    await published(dict.fromkeys(workers, WorkerStatus("ready", 0, 0)))
    ended = Event()

    def read() -> list[set[int]]:
        seen = []
        while not ended.is_set():
            found = read_status(OWN)
            seen.append({it.calls for it in found.values()} if found.keys() == workers.keys() else set())
        return seen

    reading = asyncio.create_task(asyncio.to_thread(read))
    for _ in range(300):
        for it in workers.values():
            it.calls += 1
        await asyncio.sleep(0)
    ended.set()
    versions = await reading
    assert len(set(map(frozenset, versions))) > 1, "nothing was written while it was read"
    assert all(len(calls) == 1 for calls in versions)
    for tag in workers:
        file.remove(tag)


async def test_without_descriptors_nothing_is_published_until_there_are_some() -> None:
    file = StatusFile()
    with no_descriptors_left():
        file.add("e:1", Reporter())
        for _ in range(5):
            await asyncio.sleep(0)
    assert read_status(OWN) == {}
    await published({"e:1": WorkerStatus("ready", 0, 0)})
    file.remove("e:1")


@pytest.mark.parametrize(
    "content", [b"", b'{"e:1": ["busy", 1', b"[1]", b'{"e:1": 5}', b'{"e:1": ["busy"]}', b'{"e:1": ["busy", [], 0]}']
)
async def test_the_file_of_another_version_of_toolrun_is_no_obstacle(content: bytes) -> None:
    file = StatusFile()
    file.add("e:2", Reporter())
    with another_status_file(content):
        await published({"e:2": WorkerStatus("ready", 0, 0)})
    file.remove("e:2")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"e:1": ["busy", 2, 1]}', WorkerStatus("busy", 2, 1)),
        (b'{"e:1": ["busy", 2, 1, "namespaces"]}', WorkerStatus("busy", 2, 1, "namespaces")),
        (b'{"e:1": ["busy", 2, 1, "namespaces", {}]}', WorkerStatus("busy", 2, 1, "namespaces")),
    ],
)
def test_a_version_that_tells_less_or_more_is_understood(content: bytes, expected: WorkerStatus) -> None:
    with another_status_file(content):
        assert read_status(OWN) == {"e:1": expected}


async def test_the_sandbox_is_published() -> None:
    class Sandboxed(Reporter):
        def status(self) -> WorkerStatus:
            return WorkerStatus("ready", 0, 0, "landlock")

    file = StatusFile()
    file.add("e:1", Sandboxed())
    await published({"e:1": WorkerStatus("ready", 0, 0, "landlock")})
    file.remove("e:1")


def test_nothing_is_read_from_a_file_that_has_replaced_a_status_file() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"e:1": ["busy", 1, 1]}')
        assert module._read(OWN / "fd" / str(reading)) == {}
        assert os.read(reading, 100) == b'{"e:1": ["busy", 1, 1]}'
    finally:
        os.close(reading)
        os.close(writing)


def test_nothing_is_read_of_a_process_that_has_ended(tmp_path: Path) -> None:
    assert read_status(tmp_path / "4711") == {}
