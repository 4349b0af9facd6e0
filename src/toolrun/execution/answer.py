"""The outcome of a call → its `ToolResult`: the one shape of an answer, for success and failure alike."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from toolrun.execution.failure import Failure, explain
from toolrun.execution.settle import Settled
from toolrun.result import Content, ToolResult, meta_of, normalise_result
from toolrun.text import shown_name
from toolrun.tools.context import Call

if TYPE_CHECKING:
    from toolrun.schema import Repair


def succeeded(call: Call, value: object, repairs: tuple[Repair, ...], max_chars: int) -> ToolResult:
    """The answer to a call whose body returned `value`."""
    text = None
    if type(value) is Settled:
        data, blocks, text, value = value.data, value.blocks, value.text, value.value
    else:
        data, blocks = normalise_result(value)
    took = (perf_counter() - call.started) * 1000
    given = (call.name, data, None, None, took, call.given_id or "", max_chars, repairs)
    result = ToolResult(*given, content=blocks, dropped=call.dropped)
    result.rendered = text
    if type(value) is Content:
        result.artifact, result.meta = value.artifact, meta_of(value)
    return result


def failed(
    call: Call, error: BaseException, repairs: tuple[Repair, ...], max_chars: int, known: object = None
) -> ToolResult:
    """The answer to a call that ended with `error`. `known` is the failure, if a thread has explained it already."""
    call.error = error
    failure = known if type(known) is Failure else explain(error, call.name)
    took = (perf_counter() - call.started) * 1000
    said = failure.answer
    data, blocks = normalise_result(said) if said is not None else (None, ())
    return ToolResult(
        shown_name(call.name),
        data if said is not None and said.data is not None else None,
        failure.message,
        failure.kind,
        took,
        call.given_id or "",
        max_chars,
        repairs,
        failure.side_effects,
        failure.detail,
        blocks,
        meta_of(said) if said is not None else None,
        dropped=call.dropped,
    )
