"""The calls that run at this moment, whoever makes them: an observer of the executor."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter, time_ns

from toolrun.execution.observer import Observer
from toolrun.result import ToolResult
from toolrun.tools.call_log import OnLog
from toolrun.tools.context import Call, OnProgress, Progress

log_listener: ContextVar[OnLog | None] = ContextVar("toolrun_log_listener", default=None)
"""Who is told what the tool of a call logs, of those who follow its progress."""

refusal_listener: ContextVar[Callable[[BaseException], object] | None] = ContextVar("toolrun_refusal", default=None)
"""Who is told why a call with a key got no answer."""


@dataclass(slots=True)
class RunningCall:
    """One of them."""

    id: str
    """Of this server only, and for as long as it runs."""
    call: Call
    started_at: int
    """In microseconds since 1970."""
    task: asyncio.Task[object] | None = None
    """That in which its caller waits, if somebody follows its progress."""
    progress: Progress | None = None

    @property
    def deadline_at(self) -> int | None:
        """None while its tool is looked for."""
        if self.call.deadline == float("inf"):
            return None
        return self.started_at + int((self.call.deadline - self.call.started) * 1_000_000)


class RunningCalls(Observer):
    """All of them, the oldest first. A call is no more than a number here until somebody asks."""

    def __init__(self) -> None:
        self._numbers: dict[Call, int] = {}
        self._seen: dict[Call, RunningCall] = {}
        """Those that somebody has asked about, or whose progress is noted."""
        self._next = itertools.count(1).__next__
        self.on_start: list[Callable[[RunningCall], object]] = []
        self.on_end: list[Callable[[RunningCall, ToolResult], object]] = []

    def call_started(self, call: Call) -> None:
        self._numbers[call] = self._next()
        if call.on_progress is not None:
            running = self._see(call)
            running.task = asyncio.current_task()
            call.on_progress = _noting(running, call.on_progress)
            call.on_log = log_listener.get()
        for tell in self.on_start:
            tell(self._see(call))

    def call_finished(self, call: Call, result: ToolResult) -> None:
        if call.given_key is not None and call.error is not None and call.parent is None:
            tell_why = refusal_listener.get()
            if tell_why is not None:
                tell_why(call.error)
        if self.on_end and call in self._numbers:
            running = self._see(call)
            for tell in self.on_end:
                tell(running, result)
        self._numbers.pop(call, None)
        if self._seen:
            self._seen.pop(call, None)

    def _see(self, call: Call) -> RunningCall:
        known = self._seen.get(call)
        if known is None:
            started_at = time_ns() // 1000 - int((perf_counter() - call.started) * 1_000_000)
            known = self._seen[call] = RunningCall(f"run-{self._numbers[call]}", call, started_at)
        return known

    def all(self) -> list[RunningCall]:
        return [self._see(call) for call in self._numbers]

    def get(self, id: str) -> RunningCall | None:
        return next((it for it in self.all() if it.id == id), None)

    def of_task(self, task: asyncio.Task[object]) -> RunningCall | None:
        """The call with progress that a task waits for."""
        return next((it for it in self._seen.values() if it.task is task and it.call.parent is None), None)


def _noting(running: RunningCall, on_progress: OnProgress) -> OnProgress:
    def note(progress: Progress) -> None:
        running.progress = progress
        on_progress(progress)

    return note
