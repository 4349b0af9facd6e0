"""One timer for the deadlines of all running calls of an event loop.

A timer of its own for each call costs more than the rest of the call, and almost none of them ever fires. Here a call
is written into a dict and taken out again; the one timer runs to the earliest deadline that was known when it was set,
looks who is due, and is set anew.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final, Protocol

from toolrun.errors import CallError, CallTimeoutError, ErrorKind, SideEffects
from toolrun.execution.body import Outcome
from toolrun.tools.context import Call


class DeadlineError(CallTimeoutError):
    """The deadline of the call itself, as opposed to a time-out that the tool raised."""


class StoppedError(CallError):
    """Somebody has stopped the call, who is not its caller."""

    kind = ErrorKind.CANCELLED
    side_effects = SideEffects.UNKNOWN


GIVEN_UP: Final = (DeadlineError, StoppedError)
"""How a call ends whose body may go on."""


class Waiting(Protocol):
    """What a call waits for."""

    @property
    def outcome(self) -> asyncio.Future[Outcome]: ...


class Deadlines:
    """Gives every call that is still running at its deadline its outcome."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[Waiting, Call] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")

    def add(self, running: Waiting, call: Call) -> None:
        self._running[running] = call
        if call.deadline < self._due:
            self._set(call.deadline)

    def remove(self, running: Waiting) -> None:
        self._running.pop(running, None)

    def stop(self, call: Call, by: str) -> bool:
        """Give a call its outcome now. False if its body does not run."""
        found = [running for running, other in self._running.items() if other is call and not running.outcome.done()]
        for running in found:
            del self._running[running]
            running.outcome.set_result((None, stopped(call, by)))
        return bool(found)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reset(self) -> None:
        """The deadlines of calls that run have changed."""
        due = min((call.deadline for call in self._running.values()), default=float("inf"))
        if due < self._due:
            self._set(due)

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(max(0.0, due - perf_counter()), self._fire)

    def _fire(self) -> None:
        self._timer, self._due = None, float("inf")
        now = perf_counter()
        for running, call in list(self._running.items()):
            if call.deadline <= now:
                del self._running[running]
                if not running.outcome.done():
                    running.outcome.set_result((None, _expired(call)))
        self.reset()


def stopped(call: Call, by: str) -> StoppedError:
    message = f"Tool '{call.name}' was stopped by {by}"
    if call.phase:
        return StoppedError(f"{message}, before it began: {call.phase}", side_effects=SideEffects.NOT_STARTED)
    return StoppedError(message)


def _expired(call: Call) -> DeadlineError:
    message = f"Tool '{call.name}' timed out after {call.deadline - call.started:g} s"
    if call.phase:
        return DeadlineError(f"{message}, before it began: {call.phase}", side_effects=SideEffects.NOT_STARTED)
    return DeadlineError(message)
