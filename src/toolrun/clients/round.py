"""One round of calls, which run in parallel. Each ends in exactly one result, even if the round is aborted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from toolrun.clients.turn_event import Event, ToolFinished, ToolProgress, ToolStarted
from toolrun.errors import ErrorKind, SideEffects
from toolrun.execution.approval import as_model, calling_as
from toolrun.logger import get_logger
from toolrun.result import ToolCall, ToolResult
from toolrun.tools.context import OnProgress, Progress

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

logger = get_logger("toolrun")

Emit = Callable[[Event], None]
KeyOf = Callable[[ToolCall], str | None]
"""What makes a call the same as one that was made before a crash."""


class Round:
    """The calls that a model made in one answer."""

    def __init__(self, calls: Sequence[ToolCall], emit: Emit | None, key_of: KeyOf | None = None) -> None:
        self.calls = calls
        self.results: list[ToolResult | None] = [None] * len(calls)
        self._emit = emit
        self._key_of = key_of
        self._started: set[int] = set()

    def refuse(self, index: int, reason: str, error_kind: ErrorKind = ErrorKind.OVERLOADED) -> None:
        """Answer a call without running it."""
        logger.info("%s was not run: %s", self.calls[index].name, reason)
        self._finish(index, _failure(self.calls[index], reason, error_kind, SideEffects.NOT_STARTED))

    def fail(self, index: int, reason: str, error_kind: ErrorKind, side_effects: SideEffects) -> None:
        """Answer a call that failed before."""
        self._finish(index, _failure(self.calls[index], reason, error_kind, side_effects))

    async def execute(self, executor: ToolExecutor, parallel: int) -> None:
        """Run the calls that were not refused. Raises only CancelledError."""
        waiting = [index for index, result in enumerate(self.results) if result is None]
        with calling_as(as_model()):
            if len(waiting) == 1:
                await self._execute_one(waiting[0], executor)
            elif waiting:
                pending = iter(waiting)
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(parallel, len(waiting))):
                        group.create_task(self._run_pending(pending, executor))

    async def _run_pending(self, pending: Iterator[int], executor: ToolExecutor) -> None:
        for index in pending:
            await self._execute_one(index, executor)

    async def _execute_one(self, index: int, executor: ToolExecutor) -> None:
        call = self.calls[index]
        self._started.add(index)
        listener = None
        if self._emit is not None:
            self._emit(ToolStarted(call))
            listener = self._listener(index)
        key = None if self._key_of is None else self._key_of(call)
        result = await executor.execute(call.name, call.arguments, call_id=call.id, on_progress=listener, key=key)
        self._finish(index, result)

    def _listener(self, index: int) -> OnProgress:
        def listen(progress: Progress) -> None:
            if self._emit is not None and self.results[index] is None:  # a thread may report after its deadline
                self._emit(ToolProgress(self.calls[index], progress))

        return listen

    def abort(self, running: str, waiting: str) -> None:
        """Give every unfinished call a failure as its result; the reasons are for running and for waiting calls."""
        for index, result in enumerate(self.results):
            if result is not None:
                continue
            if index in self._started:
                call = self.calls[index]
                self._finish(index, _failure(call, running, ErrorKind.CANCELLED, SideEffects.UNKNOWN))
            else:
                self.refuse(index, waiting, ErrorKind.CANCELLED)

    def finished(self) -> list[ToolFinished]:
        """All calls with their results, in order."""
        pairs = zip(self.calls, self.results, strict=True)
        return [ToolFinished(call, result) for call, result in pairs if result is not None]

    def _finish(self, index: int, result: ToolResult) -> None:
        self.results[index] = result
        if self._emit is not None:
            self._emit(ToolFinished(self.calls[index], result))


def _failure(call: ToolCall, reason: str, error_kind: ErrorKind, side_effects: SideEffects) -> ToolResult:
    return ToolResult(call.name, error=reason, error_kind=error_kind, call_id=call.id, side_effects=side_effects)
