"""Whether an attempt can still act. Pure.

"It has not acted" is true only of an attempt that cannot act any more: asked too early, `verify` says so of a call that
acts a moment later, and the call would be made twice. An attempt is over when

    thread, task    it has ended, or the process that made the call is gone
    worker          its process was killed and reaped; what is left of it dies with the process that made the call
    MCP server      it has answered; or its process is gone; or it was given up so long ago that it is given up for good

What decides is in the journal: where a tool runs and how long a server may take beside the tool, the end of an attempt
in doubt (`ended_at`) beside the call. So every process decides alike.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from toolrun.errors import CallError, ProtocolError, SideEffects, UnavailableError
from toolrun.execution.deadline import GIVEN_UP
from toolrun.execution.prepared import PreparedTool
from toolrun.tools.protocol import Tool

LEAST_WAIT: Final = 30.0
"""Seconds after which a server cannot act any more on a call that was given up, if nobody says otherwise."""
_GIVEN_UP: Final = (*GIVEN_UP, asyncio.CancelledError)


class RunsIn(StrEnum):
    """Where the body of a tool runs."""

    HOST = "host"
    """In the process that makes the call."""
    WORKER = "worker"
    """In a process that its host kills at the deadline, and that does not survive its host."""
    SERVER = "server"
    """On an MCP server that does not survive its host."""
    REMOTE = "remote"
    """On an MCP server elsewhere, which does not notice that its client has died."""

    @property
    def dies_with_host(self) -> bool:
        """Whether it is a process of its own, which is killed a moment after its host has died."""
        return self in (RunsIn.WORKER, RunsIn.SERVER)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call in doubt, as the journal knows it."""

    id: int
    process: int
    given_up_at: int
    """When its caller was answered; when it began, if its caller died before that."""
    ended_at: int | None
    place: RunsIn
    settle_us: int


def runs_in(tool: Tool) -> RunsIn:
    if getattr(tool, "is_served", False) is True:
        return RunsIn.REMOTE if getattr(tool, "survives_host", False) is True else RunsIn.SERVER
    return RunsIn.WORKER if getattr(tool, "isolated", False) is True else RunsIn.HOST


def settle_time(prepared: PreparedTool) -> int:
    """Microseconds that a server may act on a call of this tool after the call was given up; 0 if none runs it."""
    if runs_in(prepared.tool) not in (RunsIn.SERVER, RunsIn.REMOTE):
        return 0
    return int((prepared.settings.settle_after or max(LEAST_WAIT, prepared.timeout)) * 1_000_000)


def has_ended(tool: Tool, error: BaseException | None, *, is_late: bool) -> bool:
    """Whether a body is over that raised `error`, or was given up with it. `is_late`: after its call was answered."""
    is_given_up, place = isinstance(error, _GIVEN_UP), runs_in(tool)
    if place in (RunsIn.HOST, RunsIn.WORKER):
        return is_late or not is_given_up
    if isinstance(error, UnavailableError) and place is RunsIn.SERVER:
        return True
    is_answer = not isinstance(error, CallError) or error.side_effects is not SideEffects.UNKNOWN
    return is_answer and not is_given_up


def is_killed(error: BaseException | None) -> bool:
    """Whether the worker of a call that ended so is being killed."""
    return isinstance(error, (*_GIVEN_UP, ProtocolError))


def is_over(attempt: Attempt, *, is_alive: bool, now: int) -> bool:
    """Whether an attempt cannot act any more. `is_alive`: whether anything is left of the process that made it."""
    if attempt.ended_at is not None:
        return True
    if not is_alive and attempt.place is not RunsIn.REMOTE:
        return True
    return attempt.settle_us > 0 and now - attempt.given_up_at >= attempt.settle_us
