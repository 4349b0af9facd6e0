"""An engine without processes: whoever uses it plays the workers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from toolrun.processes.engine import Exit, Listener, ProcessSpec, WorkerInfo


class MemoryWorker:
    """Ends when it is told to; one that lingers is only marked then, and ends when it is made to."""

    def __init__(self, listener: Listener, *, lingers: bool = False) -> None:
        self.listener = listener
        self.lingers = lingers
        self.requests: list[dict[str, Any]] = []
        self.cancelled: list[int] = []
        """The ids of the requests that it was asked to cancel."""
        self.is_ready = False
        self.killed = False
        self.closed = False
        self.ended = False
        self._end = asyncio.Event()
        self.memory = 0

    def send(self, data: bytes, *, coalesce: bool = False) -> bool:
        assert not self.ended, "nothing may be sent to a worker that has ended"
        for message in map(json.loads, data.splitlines()):
            if message.get("cancel"):
                self.cancelled.append(message["id"])
            else:
                self.requests.append(message)
        return True

    def kill(self) -> None:
        self.killed = True
        if not self.lingers:
            self.end(-9)

    async def close(self, grace: float) -> None:
        self.closed = True
        if not self.lingers:
            self.end(0)
        await self._end.wait()

    def describe(self) -> WorkerInfo:
        return WorkerInfo("memory", self.memory)

    # What a worker does.

    def say(self, **message: object) -> None:
        self.listener.received(json.dumps(message).encode() + b"\n")

    def be_ready(self) -> None:
        self.is_ready = True
        self.say(ready={"functions": []})

    def answer(self, index: int = -1, result: object = "done", error: str | None = None) -> None:
        self.say(id=self.requests[index]["id"], result=result, error=error)

    def end(self, code: int | None, tail: str = "") -> None:
        if not self.ended:
            self.ended = True
            self._end.set()
            self.listener.ended(Exit(code, tail))


class MemoryEngine:
    """Starts workers that do nothing by themselves, ready at once unless told otherwise."""

    def __init__(self, *, ready: bool = True, lingers: bool = False) -> None:
        self.workers: list[MemoryWorker] = []
        self.specs: list[ProcessSpec] = []
        self.ready = ready
        self.lingers = lingers
        self.failure: OSError | None = None

    def start(self, spec: ProcessSpec, listener: Listener) -> MemoryWorker:
        if self.failure is not None:
            raise self.failure
        worker = MemoryWorker(listener, lingers=self.lingers)
        self.workers.append(worker)
        self.specs.append(spec)
        if self.ready:
            worker.be_ready()
        return worker

    async def close(self) -> None:
        for worker in self.workers:
            worker.kill()
