"""An engine without processes: the test is the worker."""

from __future__ import annotations

import json
from typing import Any

from toolrun.workers.engine import Exit, Listener, WorkerInfo, WorkerSpec


class MemoryWorker:
    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.requests: list[dict[str, Any]] = []
        self.killed = False
        self.closed = False
        self.ended = False
        self.memory = 0

    def send(self, data: bytes) -> None:
        assert not self.ended, "nothing may be sent to a worker that has ended"
        self.requests += [json.loads(line) for line in data.splitlines()]

    def kill(self) -> None:
        self.killed = True
        self.end(-9)

    async def close(self, grace: float) -> None:
        self.closed = True
        self.end(0)

    def describe(self) -> WorkerInfo:
        return WorkerInfo("memory", self.memory)

    # What the test does as the worker.

    def say(self, **message: object) -> None:
        self.listener.received(json.dumps(message).encode() + b"\n")

    def be_ready(self) -> None:
        self.say(ready={"functions": []})

    def answer(self, index: int = -1, result: object = "done", error: str | None = None) -> None:
        self.say(id=self.requests[index]["id"], result=result, error=error)

    def end(self, code: int | None, tail: str = "") -> None:
        if not self.ended:
            self.ended = True
            self.listener.ended(Exit(code, tail))


class MemoryEngine:
    def __init__(self, *, ready: bool = True) -> None:
        self.workers: list[MemoryWorker] = []
        self.specs: list[WorkerSpec] = []
        self.ready = ready
        self.failure: OSError | None = None

    def start(self, spec: WorkerSpec, listener: Listener) -> MemoryWorker:
        if self.failure is not None:
            raise self.failure
        worker = MemoryWorker(listener)
        self.workers.append(worker)
        self.specs.append(spec)
        if self.ready:
            worker.be_ready()
        return worker

    async def close(self) -> None:
        for worker in self.workers:
            worker.kill()
