"""Where the pipeline waits for a recorder: for room, for the start of a call, and for another call with the same key.

An executor without a recorder never comes here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from toolrun.errors import CallTimeoutError, InvalidArgumentsError, SideEffects
from toolrun.execution.admission import Slot
from toolrun.execution.body import Outcome
from toolrun.execution.call_journal import CallJournal, KeyTakenError
from toolrun.execution.deadline import Deadlines, StoppedError
from toolrun.execution.prepared import PreparedTool
from toolrun.text import shown_name
from toolrun.tools.context import Call, CallKey

Run: TypeAlias = Callable[[PreparedTool, Call, CallJournal], Awaitable[Outcome]]


async def wait_for_room(recorder: CallJournal, call: Call, timeout: float) -> None:
    """Calls are made no faster than they can be recorded."""
    try:
        async with asyncio.timeout(timeout):
            await recorder.drain()
    except TimeoutError:
        raise _not_started(call) from None


async def run_keyed(
    recorder: CallJournal | None, prepared: PreparedTool, call: Call, key: str | CallKey, run: Run
) -> Outcome:
    """Run a call unless it was made before. Who waits for another call with the same key holds no slot."""
    if recorder is None:
        raise InvalidArgumentsError(
            "A key needs a journal, and calls are not recorded here, so the call was not made. A project with a "
            "toolrun.toml has a journal unless [journal] enabled is false or the file cannot be written; 'toolrun "
            "doctor' says which. A ToolExecutor has a journal if you give it a recorder."
        )
    recorder.set_key(call, prepared, key)
    while True:
        known = await recorder.look_up(call, prepared)
        if known is not None:
            call.is_replayed = True
            return known, None
        with contextlib.suppress(KeyTakenError):
            return await run(prepared, call, recorder)


async def wait_for_start(
    waiting: asyncio.Future[None], recorder: CallJournal, call: Call, slot: Slot, deadlines: Deadlines
) -> None:
    """The body runs after this, and not before the recorder has said so."""
    try:
        if call.key is None:
            await _wait_cheaply(waiting, call, deadlines)
        else:  # the future belongs to a transaction, and only whoever made it may give it a result
            async with asyncio.timeout(call.remaining()):
                await waiting
    except BaseException as error:
        recorder.withdraw(call)
        slot.release_shared()
        slot.release_tool()
        if isinstance(error, TimeoutError):
            raise _not_started(call) from None
        raise


class _Start:
    """The start of a call as something that its deadline can put an end to."""

    __slots__ = ("outcome",)

    def __init__(self, outcome: asyncio.Future[Any]) -> None:
        self.outcome = outcome


async def _wait_cheaply(waiting: asyncio.Future[None], call: Call, deadlines: Deadlines) -> None:
    """Without a timer for each call. Raises TimeoutError, or StoppedError."""
    start = _Start(waiting)
    deadlines.add(start, call)
    try:
        outcome = await cast("asyncio.Future[tuple[object, BaseException] | None]", waiting)
    finally:
        deadlines.remove(start)
    if outcome is not None:
        if isinstance(outcome[1], StoppedError):
            outcome[1].side_effects = SideEffects.NOT_STARTED
            raise outcome[1]
        raise TimeoutError


def _not_started(call: Call) -> CallTimeoutError:
    return CallTimeoutError(
        f"Tool '{shown_name(call.name)}' did not start: the journal did not answer before the deadline",
        side_effects=SideEffects.NOT_STARTED,
    )
