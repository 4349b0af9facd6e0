"""Whether an attempt that is in doubt can still act, by how its body ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolrun import SideEffects, tool
from toolrun.errors import ProtocolError, UnavailableError
from toolrun.execution.deadline import DeadlineError, StoppedError
from toolrun.journal.attempt import RunsIn, has_ended, is_killed, runs_in

UNKNOWN = SideEffects.UNKNOWN
LOST = UnavailableError("the connection was lost", side_effects=UNKNOWN)
GARBLED = ProtocolError("no answer")
ANSWERED = UnavailableError("the service says that it is closed", side_effects=SideEffects.FAILED)
LATE = DeadlineError("too late")


@tool
def in_host() -> None:
    """Act."""


@tool(isolated=True)
def in_worker() -> None:
    """Act."""


class Served:
    """A tool on a server that toolrun has started, or on one elsewhere."""

    name = "act"
    description = "Act."
    schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012  a test's own
    is_served = True

    def __init__(self, *, survives_host: bool) -> None:
        self.survives_host = survives_host

    async def ainvoke(self, arguments: dict[str, Any]) -> None: ...


OURS, ELSEWHERE = Served(survives_host=False), Served(survives_host=True)


def test_where_a_body_runs_is_known_of_its_tool() -> None:
    places = [runs_in(it) for it in (in_host, in_worker, OURS, ELSEWHERE)]
    assert places == [RunsIn.HOST, RunsIn.WORKER, RunsIn.SERVER, RunsIn.REMOTE]


@pytest.mark.parametrize(
    ("acts", "error", "is_late", "over"),
    [
        (in_host, KeyError("x"), False, True),  # the body itself has ended with it
        (in_host, LATE, False, False),
        (in_host, StoppedError("stopped"), False, False),
        (in_host, asyncio.CancelledError(), False, False),
        (in_host, asyncio.CancelledError(), True, True),
        (in_host, None, True, True),
        (in_worker, KeyError("x"), False, True),
        (in_worker, LATE, False, False),
        (in_worker, KeyError("x"), True, True),
        (OURS, LOST, False, True),  # it does not outlive its connection
        (ELSEWHERE, LOST, False, False),  # it goes on without one
        (OURS, ANSWERED, False, True),
        (ELSEWHERE, ANSWERED, False, True),
        (ELSEWHERE, KeyError("x"), False, True),
        (OURS, GARBLED, False, False),
        (ELSEWHERE, GARBLED, False, False),
        (OURS, LATE, False, False),
        (ELSEWHERE, LATE, False, False),
        (ELSEWHERE, asyncio.CancelledError(), True, False),
    ],
)
def test_a_body_is_over_when_it_said_so_or_cannot_go_on(acts: Any, error: Any, is_late: bool, over: bool) -> None:
    assert has_ended(acts, error, is_late=is_late) is over


@pytest.mark.parametrize("error", [LATE, StoppedError("stopped"), asyncio.CancelledError(), GARBLED])
def test_the_worker_of_a_call_that_was_given_up_is_killed(error: Any) -> None:
    assert is_killed(error)


@pytest.mark.parametrize("error", [LOST, KeyError("x"), None])
def test_a_worker_that_answered_or_died_is_not_killed_for_its_call(error: Any) -> None:
    assert not is_killed(error)
