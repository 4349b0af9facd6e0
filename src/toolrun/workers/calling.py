"""A tool call as a request to a pool, and the pool's answer as the tool's."""

from __future__ import annotations

from collections.abc import Mapping

from toolrun.context import Call, current_call
from toolrun.errors import CallError, InvalidArgumentsError, ProtocolError, SideEffects
from toolrun.failure import remote_failure
from toolrun.settings import JSON
from toolrun.workers.member import Answered
from toolrun.workers.pool import Pool, Request

_NOTHING: Mapping[str, str] = {}


async def call_worker(
    pool: Pool,
    tool: str,
    function: str,
    arguments: Mapping[str, JSON],
    config: Mapping[str, JSON] = _NOTHING,
    secrets: Mapping[str, str] = _NOTHING,
) -> JSON:
    """Run a function of the pool's script for the call that is running here. Raises CallError if it fails."""
    call = current_call.get()
    if call is None:
        answered = await pool.run(Request(function, arguments, config, secrets))
    else:
        call.phase = "its worker was not ready"
        answered = await pool.run(Request(function, arguments, config, secrets, call.on_progress, lambda: _begin(call)))
    if answered.error is None:
        return answered.result
    raise _failure(answered, tool)


def _begin(call: Call) -> None:
    call.phase = ""


def _failure(answered: Answered, tool: str) -> CallError:
    message = answered.error or "it failed without a message"
    if answered.raised[:1] == ("toolrun.InvalidArguments",):
        return InvalidArgumentsError(message)
    if answered.raised[:1] == ("toolrun.UnknownFunction",):
        return ProtocolError(message, side_effects=SideEffects.NOT_STARTED)
    return remote_failure(answered.raised, message, tool)
