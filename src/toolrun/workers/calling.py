"""A tool call as a request to a pool, and the pool's answer as the tool's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from toolrun.context import Call
from toolrun.errors import CallError, InvalidArgumentsError, ProtocolError, SideEffects
from toolrun.failure import remote_failure
from toolrun.settings import JSON
from toolrun.workers.member import Answered
from toolrun.workers.pool import Pool, Request, Ticket

_NOTHING: Mapping[str, str] = {}


class Remote:
    """A call that runs in a worker, as the executor waits for it."""

    __slots__ = ("_ticket", "on_end", "outcome")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outcome: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()
        self.on_end: Callable[[], object] | None = None
        self._ticket: Ticket | None = None

    def submit(self, pool: Pool, tool: str, request: Request) -> bool:
        """Whether a worker was free to take it."""

        def finish(outcome: Answered | CallError) -> None:
            if not self.outcome.done():
                self.outcome.set_result(_outcome(outcome, tool))
            self._end()

        self._ticket = pool.submit(request, finish)
        return self._ticket is not None

    def give_up(self) -> None:
        if self._ticket is not None:
            self._ticket.give_up()
        self._end()

    def _end(self) -> None:
        on_end, self.on_end = self.on_end, None  # once: it may be given up in the moment in which it ends
        if on_end is not None:
            on_end()


async def call_worker(pool: Pool, tool: str, request: Request) -> JSON:
    """Run a function of the pool's script, waiting for a worker if need be. Raises CallError if it fails."""
    value, error = _outcome(await pool.run(request), tool)
    if error is not None:
        raise error
    return value


def make_request(
    call: Call | None,
    function: str,
    arguments: Mapping[str, JSON],
    config: Mapping[str, JSON] = _NOTHING,
    secrets: Mapping[str, str] = _NOTHING,
) -> Request:
    """A request for the call that is running."""
    if call is None:
        return Request(function, arguments, config, secrets)
    call.phase = "its worker was not ready"
    return Request(function, arguments, config, secrets, call.on_progress, lambda: _begin(call))


def _outcome(answered: Answered | CallError, tool: str) -> tuple[JSON, CallError | None]:
    if isinstance(answered, CallError):
        return None, answered
    return (answered.result, None) if answered.error is None else (None, _failure(answered, tool))


def _begin(call: Call) -> None:
    call.phase = ""


def _failure(answered: Answered, tool: str) -> CallError:
    message = answered.error or "it failed without a message"
    if answered.raised[:1] == ("toolrun.InvalidArguments",):
        return InvalidArgumentsError(message)
    if answered.raised[:1] == ("toolrun.UnknownFunction",):
        return ProtocolError(message, side_effects=SideEffects.NOT_STARTED)
    return remote_failure(answered.raised, message, tool)
