"""Has arguments checked that may take long: prepared in a thread, judged in a process, within the call's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from toolrun.errors import CallError, SideEffects, UnavailableError
from toolrun.execution.loop_state import LoopState
from toolrun.json import JSON, dumps
from toolrun.schema.effort import MAX_CHANGE
from toolrun.tools.context import Call
from toolrun.tools.function import FunctionTool

if TYPE_CHECKING:
    from toolrun.execution.prepared import PreparedTool
    from toolrun.schema.arguments import Checked

_PHASE: Final = "its arguments were being checked"


async def check_elsewhere(
    prepared: PreparedTool, call: Call, enter_loop: Callable[[asyncio.AbstractEventLoop], LoopState]
) -> Checked | None:
    """What `ArgumentSchema.check` says of the arguments of a call; None if it can be asked here. Raises CallError."""
    if prepared.schema.effort.is_within(call.arguments, MAX_CHANGE):
        return None
    state = enter_loop(asyncio.get_running_loop())
    call.phase = _PHASE
    body = state.parked_tasks.start(lambda _: _check(prepared, call, state), None, None)
    value, error = body if isinstance(body, tuple) else await state.wait(body, call)
    call.phase = ""
    if error is not None:
        raise error
    return cast("Checked", value)


@cache
def _judge() -> FunctionTool[..., Any]:
    from toolrun.schema.judge import judge

    return FunctionTool(judge, name="check-arguments", description="Check arguments.", isolated=True)


async def _check(prepared: PreparedTool, call: Call, state: LoopState) -> Checked:
    from toolrun.schema import judge
    from toolrun.schema.arguments import Checked
    from toolrun.schema.explain import Problem

    try:
        given = await asyncio.to_thread(judge.read, call.arguments)
    except ValueError as error:
        return Checked({}, problems=(Problem("", str(error)),))
    given, names = judge.renamed(given, prepared.rename)
    pieces = await asyncio.to_thread(judge.write, given)
    if isinstance(pieces, Problem):
        return Checked({}, problems=(pieces,))
    request: dict[str, JSON] = {
        "schema": dumps(prepared.schema.schema).decode(),
        "origin": prepared.schema.origin.value,
        "tool_names": [call.name, prepared.name],
        "pieces": list(pieces),
        "strict": state.limits.strict,
    }
    try:
        answer: Any = await state.isolated_tools().invoke(_judge(), request)
    except CallError as error:
        raise UnavailableError(
            f"The arguments of '{prepared.name}' could not be checked: {error}", side_effects=SideEffects.NOT_STARTED
        ) from error
    return judge.with_names(judge.verdict(answer, cast("dict[str, Any]", given)), names)
