"""Checks the arguments of a call: what is short here, and what may take long in a thread and a process.

A thread reads what has code of its own, such as a mapping that makes its items when asked. If what it read is small,
no process is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from toolrun.errors import CallError, InvalidArgumentsError, SideEffects, UnavailableError
from toolrun.execution.failure import text_of
from toolrun.execution.loop_state import LoopState
from toolrun.execution.prepared import PreparedTool, start_thread
from toolrun.json import JSON, dumps
from toolrun.logger import get_logger
from toolrun.result import Large
from toolrun.text import visible
from toolrun.tools.context import Call
from toolrun.tools.function import FunctionTool

if TYPE_CHECKING:
    from toolrun.schema.arguments import Checked, NamedArguments
    from toolrun.schema.explain import Problem

logger = get_logger("toolrun")

_PHASE: Final = "its arguments were being checked"


EnterLoop: TypeAlias = Callable[[asyncio.AbstractEventLoop], LoopState]


async def check(prepared: PreparedTool, call: Call, strict: bool, enter_loop: EnterLoop) -> None:
    """Give a call the arguments that its tool gets, within its deadline. Raises CallError."""
    checked = await _check_elsewhere(prepared, call, enter_loop)
    if checked is None:
        names = (call.name, prepared.name)
        checked = prepared.schema.check(call.arguments, strict=strict, rename=prepared.rename, tool_names=names)
    call.dropped = checked.dropped
    if checked.renamed:
        logger.info("%s: %s → %s", call.name, _names(checked.renamed), _names(checked.renamed.values()))
    if checked.problems:
        from toolrun.schema.explain import explain as explain_problems

        refused = InvalidArgumentsError(
            explain_problems(checked.problems),
            detail=f"Parameters of {prepared.name}:\n{prepared.schema.describe()}",
        )
        refused.problems = checked.problems
        raise refused
    call.sent, call.arguments, call.repairs = call.arguments, checked.arguments, checked.repairs
    if call.on_checked is not None:
        call.on_checked()


def _names(names: Iterable[str]) -> str:  # which arguments, but not their values
    return "{" + ", ".join(f'{visible(name)}: "..."' for name in names) + "}"


async def _check_elsewhere(prepared: PreparedTool, call: Call, enter_loop: EnterLoop) -> Checked | None:
    """What `ArgumentSchema.check` says of arguments that may take long; None if it can be asked here.

    They are prepared in a thread, and checked in a process.
    """
    if prepared.schema.effort.is_short(call.arguments, is_change=True):
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
def _remote_tool() -> FunctionTool[..., Any]:
    from toolrun.schema.remote_check import check_pieces

    return FunctionTool(check_pieces, name="check-arguments", description="Check arguments.", isolated=True)


async def _check(prepared: PreparedTool, call: Call, state: LoopState) -> Checked:
    from toolrun.schema import remote_check
    from toolrun.schema.arguments import Checked, with_names
    from toolrun.schema.explain import Problem

    found = await _prepared_in_thread(prepared, call, state)
    if isinstance(found, Problem):
        return Checked({}, problems=(found,))
    named, pieces = found
    if not pieces:
        return with_names(prepared.schema.check_named(named.arguments, state.limits.strict), named)
    request: dict[str, JSON] = {
        "schema": dumps(prepared.schema.schema).decode(),
        "origin": prepared.schema.origin.value,
        "pieces": list(pieces),
        "strict": state.limits.strict,
    }
    try:
        answer: Any = await state.isolated_tools().invoke(_remote_tool(), request)
    except CallError as error:
        raise UnavailableError(
            f"The arguments of '{prepared.name}' could not be checked: {error}", side_effects=SideEffects.NOT_STARTED
        ) from error
    if type(answer) is Large:
        answer = answer.value
    return with_names(remote_check.read_answer(answer, named.arguments), named)


async def _prepared_in_thread(
    prepared: PreparedTool, call: Call, state: LoopState
) -> tuple[NamedArguments, list[str]] | Problem:
    body = start_thread(prepared.name, lambda _: _prepare(prepared, call), call, state)
    try:
        value, error = body if isinstance(body, tuple) else await body.outcome
    except asyncio.CancelledError:
        if not isinstance(body, tuple):
            body.give_up()
        raise
    if error is not None:
        raise error
    return cast("tuple[NamedArguments, list[str]] | Problem", value)


def _prepare(prepared: PreparedTool, call: Call) -> tuple[NamedArguments, list[str]] | Problem:
    """The arguments under the names of the schema, and as text for the process; none if they need no process."""
    from toolrun.schema import remote_check
    from toolrun.schema.arguments import TOO_LARGE
    from toolrun.schema.explain import Problem

    try:
        if not remote_check.can_fit(call.arguments):
            return TOO_LARGE
        named = prepared.schema.find_names(call.arguments, prepared.rename, (call.name, prepared.name))
        if isinstance(named, Problem):
            return named
        if prepared.schema.effort.is_short(named.arguments, is_change=True):
            return named, []
        if not remote_check.can_fit(named.arguments):
            return TOO_LARGE
        pieces = remote_check.write_pieces(named.arguments)
    except BaseException as error:  # noqa: BLE001  a foreign object's own methods, which may even exit
        return Problem("", f"the arguments cannot be read: {text_of(error)}")
    return pieces if isinstance(pieces, Problem) else (named, pieces)
