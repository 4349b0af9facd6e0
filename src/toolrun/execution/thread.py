"""Threads of our own for blocking tools.

A thread cannot be killed. One whose call was answered at the deadline is abandoned: it is counted until its tool
returns, nobody waits for it, and as a daemon it does not keep the process alive. asyncio's own pool does wait, at the
end of the loop and of the interpreter, and a few hung tools use up all its threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

from toolrun.execution.body import Outcome
from toolrun.tools.context import OnLateEnd

_IDLE: Final = 10.0
"""Seconds after which a thread with nothing to do ends."""


class Job:
    """A blocking call in a thread. `outcome` is (value, None) or (None, what it raised)."""

    __slots__ = (
        "abandoned",
        "argument",
        "context",
        "finalise",
        "finished",
        "function",
        "name",
        "on_end",
        "on_late_end",
        "outcome",
        "threads",
    )

    def __init__(
        self,
        name: str,
        function: Callable[[Any], object],
        argument: object,
        context: Context,
        outcome: asyncio.Future[Outcome],
        finalise: Callable[[object, BaseException | None], Outcome] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.argument = argument
        self.context = context
        self.outcome = outcome
        self.finalise = finalise
        """What is made of the outcome, in the same thread."""
        self.on_end: Callable[[], object] | None = None
        """Called on the loop when the body has ended, however long after the answer."""
        self.on_late_end: OnLateEnd | None = None
        """Called on the loop with the outcome, if the call was answered before."""
        self.threads: Threads | None = None
        self.abandoned = False
        self.finished = False

    def give_up(self) -> None:
        """A thread cannot be stopped, so it is only counted from now on."""
        if self.threads is not None:
            self.threads.abandon(self)

    def deliver(self, value: object, error: BaseException | None) -> None:
        """On the loop: the body has ended."""
        if self.on_end is not None:
            self.on_end()
        if not self.outcome.done():
            self.outcome.set_result((value, error))
        elif self.on_late_end is not None:
            self.on_late_end(value, error)


class Threads:
    """Starts threads as they are needed and keeps them a while."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._spare = 0
        self._alive = 0
        self._closed = False
        self._abandoned: Counter[str] = Counter()
        self.abandoned = 0

    def start(self, job: Job) -> None:
        """Run a job now, in a spare thread or a new one."""
        job.threads = self
        with self._lock:
            if self._spare:
                self._spare -= 1
            else:
                threading.Thread(target=self._work, name="toolrun", daemon=True).start()
                self._alive += 1
        self._jobs.put(job)

    def abandon(self, job: Job) -> None:
        """Nobody waits for this job any more."""
        with self._lock:
            if not job.finished and not job.abandoned:
                job.abandoned = True
                self._abandoned[job.name] += 1
                self.abandoned += 1

    def abandoned_by_tool(self) -> dict[str, int]:
        with self._lock:
            return {name: count for name, count in self._abandoned.items() if count}

    def close(self) -> None:
        """Let every thread end once its job is done."""
        with self._lock:
            self._closed = True
            for _ in range(self._alive):
                self._jobs.put(None)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE)
            except queue.Empty:
                with self._lock:
                    if self._spare:  # otherwise a job is on its way to this thread
                        self._spare -= 1
                        self._alive -= 1
                        return
                continue
            if job is None:
                return
            value: object = None
            error: BaseException | None = None
            try:
                value = job.context.run(job.function, job.argument)
            except BaseException as raised:  # noqa: BLE001  SystemExit of a tool is an answer, too
                error = raised
            if job.finalise is not None and not job.abandoned:
                try:
                    value, error = job.context.run(job.finalise, value, error)
                except BaseException as raised:  # noqa: BLE001  a job that is not delivered keeps its slots for ever
                    value, error = None, raised
            self._finish(job, value, error)
            del job, value, error  # a parked thread must not keep the last call's objects alive

    def _finish(self, job: Job, value: object, error: BaseException | None) -> None:
        with self._lock:
            job.finished = True
            self._spare += 1
            if job.abandoned:
                self.abandoned -= 1
                self._abandoned[job.name] -= 1
                _tell(job, value, error)  # before anybody can see that it is over
                return
        _tell(job, value, error)


def _tell(job: Job, value: object, error: BaseException | None) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
        job.outcome.get_loop().call_soon_threadsafe(job.deliver, value, error)
