"""What a call would do, without making it: the first steps of `ToolExecutor.execute`, and nothing after them.

The tool is looked up, and the arguments are checked and repaired by the very code that does so for a call, also where
they are so large that a process has to check them.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolrun.execution.answer import failed
from toolrun.execution.argument_check import check
from toolrun.execution.executor import ToolExecutor
from toolrun.execution.prepared import PreparedTool
from toolrun.result import ToolResult
from toolrun.tools.context import Arguments, Call


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of a call."""

    call: Call
    """With the arguments that the tool would get."""
    prepared: PreparedTool | None
    """None if there is no such tool, or it cannot be used."""
    refusal: ToolResult | None
    """The answer, if the call would be refused."""


async def dry_run(executor: ToolExecutor, name: str, arguments: Arguments = None) -> DryRun:
    """Raises nothing but the caller's own cancellation."""
    call = Call(executor, name, {} if arguments is None else arguments, None)
    prepared: PreparedTool | None = None
    try:
        prepared = await executor.find(name)
        call.deadline = call.started + prepared.timeout
        if not prepared.is_valid(call.arguments):
            await check(prepared, call, executor.limits.strict, lambda _: executor.loop_state())
    except Exception as error:  # noqa: BLE001  as for a call: whatever it is, it is the answer
        return DryRun(call, prepared, failed(call, error, executor.limits.max_result_chars))
    return DryRun(call, prepared, None)
