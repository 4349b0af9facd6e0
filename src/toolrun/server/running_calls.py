"""The calls that run at this moment, whoever makes them: an observer of the executor."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, time_ns

from toolrun.execution.observer import Observer
from toolrun.result import ToolResult
from toolrun.tools.context import Call, OnProgress, Progress


@dataclass(slots=True)
class RunningCall:
    """One of them."""

    id: str
    """Of this server only, and for as long as it runs."""
    call: Call
    task: asyncio.Task[object] | None
    """That in which its caller waits."""
    started_at: int
    """In microseconds since 1970."""
    progress: Progress | None = None

    @property
    def deadline_at(self) -> int | None:
        """None while its tool is looked for."""
        if self.call.deadline == float("inf"):
            return None
        return self.started_at + int((self.call.deadline - self.call.started) * 1_000_000)


class RunningCalls(Observer):
    """All of them, the oldest first."""

    def __init__(self) -> None:
        self._by_call: dict[Call, RunningCall] = {}
        self._numbers = itertools.count(1)
        self.on_start: list[Callable[[RunningCall], object]] = []
        self.on_end: list[Callable[[RunningCall, ToolResult], object]] = []

    def call_started(self, call: Call) -> None:
        age_us = int((perf_counter() - call.started) * 1_000_000)
        started_at = time_ns() // 1000 - age_us
        running = RunningCall(f"run-{next(self._numbers)}", call, asyncio.current_task(), started_at)
        self._by_call[call] = running
        if call.on_progress is not None:
            call.on_progress = _noting(running, call.on_progress)
        for tell in self.on_start:
            tell(running)

    def call_finished(self, call: Call, result: ToolResult) -> None:
        running = self._by_call.pop(call, None)
        if running is not None:
            for tell in self.on_end:
                tell(running, result)

    def all(self) -> list[RunningCall]:
        return list(self._by_call.values())

    def get(self, id: str) -> RunningCall | None:
        return next((it for it in self._by_call.values() if it.id == id), None)

    def of_task(self, task: asyncio.Task[object]) -> RunningCall | None:
        """The call that a task waits for."""
        return next((it for it in self._by_call.values() if it.task is task and it.call.parent is None), None)


def _noting(running: RunningCall, on_progress: OnProgress) -> OnProgress:
    def note(progress: Progress) -> None:
        running.progress = progress
        on_progress(progress)

    return note
