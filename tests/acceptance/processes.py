"""Real worker processes, seen from outside: which there are, when one ends, and what is said to it and by it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from toolrun.processes.engine import Exit, Listener, ProcessSpec, Worker, WorkerInfo
from toolrun.processes.local import LocalEngine
from toolrun.processes.process_table import WorkerProcess, find_workers

LIMIT = 30.0
"""Seconds that nothing should ever take."""


def own_workers() -> list[WorkerProcess]:
    """The workers that this process started, as the system has them."""
    return [worker for worker in find_workers() if worker.host == os.getpid()]


@asynccontextmanager
async def watched(pid: int) -> AsyncIterator[asyncio.Event]:
    """Something that is set when a process has ended."""
    ended = asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        ended.set()
        yield ended
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        yield ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@contextmanager
def gate(path: Path) -> Iterator[Callable[[], object]]:
    """A FIFO: whoever reads a line of it waits until the test lets them. That never blocks, even if nobody reads."""
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield lambda: os.write(descriptor, b"go on\n")
    finally:
        os.close(descriptor)


class Recorder:
    """The engine for local processes, with a note of everything that passes between them and their host."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._engine = LocalEngine()
        self._now = now
        self.started_at: list[float] = []
        """When each process was started, by the clock of the test."""
        self.log: list[str] = []
        """What workers wrote to stderr, line by line."""
        self.has_sent = asyncio.Event()
        self._sent = b""
        self._received = b""

    @property
    def starts(self) -> int:
        return len(self.started_at)

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._sent.splitlines()]

    @property
    def received(self) -> list[dict[str, Any]]:
        """Without what a worker says of itself when it is ready."""
        messages = [json.loads(line) for line in self._received.splitlines()]
        return [message for message in messages if "ready" not in message]

    def start(self, spec: ProcessSpec, listener: Listener) -> Worker:
        self.started_at.append(self._now())
        return _RecordedWorker(self, self._engine.start(spec, _RecordingListener(self, listener)))

    async def close(self) -> None:
        await self._engine.close()

    def note_sent(self, data: bytes) -> None:
        self._sent += data
        self.has_sent.set()

    def note_received(self, data: bytes) -> None:
        self._received += data


class _RecordedWorker:
    def __init__(self, recorder: Recorder, worker: Worker) -> None:
        self._recorder = recorder
        self._worker = worker

    def send(self, data: bytes, **options: Any) -> bool:
        self._recorder.note_sent(data)
        return self._worker.send(data, **options)

    def kill(self) -> None:
        self._worker.kill()

    async def close(self, grace: float) -> None:
        await self._worker.close(grace)

    def describe(self) -> WorkerInfo:
        return self._worker.describe()


class _RecordingListener:
    def __init__(self, recorder: Recorder, listener: Listener) -> None:
        self._recorder = recorder
        self._listener = listener

    def received(self, data: bytes) -> None:
        self._recorder.note_received(data)
        self._listener.received(data)

    def logged(self, line: str) -> None:
        self._recorder.log.append(line)
        self._listener.logged(line)

    def ended(self, exit: Exit) -> None:
        self._listener.ended(exit)
