"""The outcome of a call → its `ToolResult`: the one shape of an answer, for success and failure alike."""

from __future__ import annotations

from asyncio import CancelledError
from time import perf_counter
from typing import cast

from toolrun.errors import SideEffects
from toolrun.execution.failure import Failure, explain
from toolrun.execution.finalise import Finalised
from toolrun.execution.secrecy import with_shown
from toolrun.json import JSON
from toolrun.result import Content, ToolResult, meta_of, normalise_result
from toolrun.text import shown_name
from toolrun.tools.context import Call


def answer(call: Call, value: object, error: BaseException | None, max_chars: int) -> ToolResult:
    """The answer to a call whose body returned `value`, or ended with `error`."""
    if error is not None:
        return failed(call, error, max_chars, value)
    finalised = value if type(value) is Finalised else None
    data, blocks = normalise_result(value) if finalised is None else (finalised.data, finalised.blocks)
    took = (perf_counter() - call.started) * 1000
    given = (call.name, data, None, None, took, call.given_id or "", max_chars, call.repairs)
    result = ToolResult(*given, content=blocks, dropped=call.dropped, edited=call.edited)
    result.replayed = call.is_replayed
    if call.sent is not None:
        result.executed = cast("dict[str, JSON]", call.arguments)
    if call.replayed_from is not None:
        result.record = (call.replayed_from, call.given_key)
    if finalised is not None:
        result.rendered, result.artifact, result.meta = finalised.text, finalised.artifact, finalised.meta
        if finalised.has_secret:
            result = with_shown(result, finalised.shown)
    elif type(value) is Content:
        result.artifact, result.meta = value.artifact, value.meta if value.is_normal else meta_of(value)
    return result


def cancelled(call: Call, error: CancelledError, max_chars: int) -> ToolResult:
    """The answer to a call whose caller has gone, for the record."""
    result = failed(call, error, max_chars)
    if call.phase:
        result.side_effects = SideEffects.NOT_STARTED
    return result


def failed(call: Call, error: BaseException, max_chars: int, known: object = None) -> ToolResult:
    """The answer to a call that ended with `error`. `known` is the failure, if a thread has explained it already."""
    call.error = error
    failure = known if type(known) is Failure else explain(error, call.name)
    took = (perf_counter() - call.started) * 1000
    said = failure.answer
    data, blocks = normalise_result(said) if said is not None else (None, ())
    result = ToolResult(
        shown_name(call.name),
        data if said is not None and said.data is not None else None,
        failure.message,
        failure.kind,
        took,
        call.given_id or "",
        max_chars,
        call.repairs,
        failure.side_effects,
        failure.detail,
        blocks,
        meta_of(said) if said is not None else None,
        dropped=call.dropped,
        edited=call.edited,
    )
    if call.sent is not None:
        result.executed = cast("dict[str, JSON]", call.arguments)
    return result
