"""What happens while somebody listens: calls that start and end, and what changes about approvals, doubts and health.

Each listener has a queue of its own that cannot grow: one that reads slowly misses calls, and is told how many. Nobody
waits for a listener, and while nobody listens nothing is observed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from toolrun.errors import SideEffects
from toolrun.logger import get_logger
from toolrun.result import ToolResult
from toolrun.server.running_calls import RunningCall, RunningCalls
from toolrun.tools.manager import ToolManager

logger = get_logger("toolrun.serve")

Event = tuple[str, Any]
_MAX_WAITING: Final = 256
"""Events that wait for a listener."""
_LOOK: Final = 1.0
"""Seconds from one look at what other processes may change to the next."""


class Subscription:
    """The queue of one listener."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._news = asyncio.Event()

    def put(self, event: Event) -> None:
        """An event that says only that something changed is not put twice."""
        data = event[1]
        if data is None and event in self._waiting:
            return
        if len(self._waiting) >= _MAX_WAITING and data is not None:
            self._missed += 1
        else:
            self._waiting.append(event)
        self._news.set()

    async def get(self) -> Event:
        while not self._waiting:
            if self._missed:
                missed, self._missed = self._missed, 0
                return "missed", {"calls": missed}
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()


class EventHub:
    """The listeners of one server."""

    def __init__(
        self, calls: RunningCalls, manager: ToolManager, look: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        """`look` says what is to be compared with what was there before, by the event that tells of a change."""
        self._calls = calls
        self._manager = manager
        self._look = look
        self._subscriptions: set[Subscription] = set()
        self._looking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def subscribed(self) -> Iterator[Subscription]:
        subscription = Subscription()
        if not self._subscriptions:
            self._start()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)
            if not self._subscriptions:
                self._end()

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls.on_start.append(self._call_started)
        self._calls.on_end.append(self._call_ended)
        self._manager.on_change.append(self._tools_changed)
        self._looking = asyncio.create_task(self._compare())

    def _end(self) -> None:
        self._calls.on_start.remove(self._call_started)
        self._calls.on_end.remove(self._call_ended)
        self._manager.on_change.remove(self._tools_changed)
        assert self._looking is not None
        self._looking.cancel()
        self._looking = None

    def _call_started(self, it: RunningCall) -> None:
        self._publish("call", _about(it, "started", str(it.call.name)[:128], "running"))

    def _call_ended(self, it: RunningCall, result: ToolResult) -> None:
        about = _about(it, "ended", result.tool_name, _outcome(result))
        kind = None if result.error_kind is None else result.error_kind.value
        run_us = int(result.execution_time_ms * 1000)
        self._publish("call", {**about, "id": result.recorded_as, "error_kind": kind, "run_us": run_us})

    def _tools_changed(self) -> None:
        """In any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._publish, "tools", None)

    def _publish(self, name: str, data: Any) -> None:
        for subscription in self._subscriptions:
            subscription.put((name, data))

    async def _compare(self) -> None:
        """Tell of what another process has changed, or what nobody else tells of."""
        before: dict[str, Any] = {}
        while True:
            try:
                now = await self._look()
            except Exception:
                logger.debug("a look at what has changed failed", exc_info=True)
                now = before
            for name, state in now.items():
                if name in before and before[name] != state:
                    self._publish(name, None)
            before = now
            await asyncio.sleep(_LOOK)


def _about(it: RunningCall, phase: str, tool: str, outcome: str) -> dict[str, Any]:
    about = {"phase": phase, "run": it.id, "id": None, "tool": tool, "at": it.started_at, "outcome": outcome}
    return {**about, "error_kind": None, "run_us": None}


def _outcome(result: ToolResult) -> str:
    if result.error_kind is None:
        return "ok"
    if result.error_kind in ("timeout", "cancelled"):
        return result.error_kind.value
    return "refused" if result.side_effects is SideEffects.NOT_STARTED else "failed"
