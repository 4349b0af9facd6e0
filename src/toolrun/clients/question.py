"""What a question may ask for beside its text. Values, checked once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict

from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.typed_reply import ReplyType
from toolrun.errors import UsageError
from toolrun.text import suggestion

if TYPE_CHECKING:
    from toolrun.clients.provider import Provider
    from toolrun.execution.executor import ToolExecutor

AUTO: Final = "auto"
NONE: Final = "none"
REQUIRED: Final = "required"


class QuestionOptions(TypedDict, total=False):
    """For one question; what is left out is as the client says."""

    system: str | None
    """Instructions in place of the client's."""
    limits: TurnLimits | None
    toolset: Collection[str] | None
    """The names of the tools that the model may use. The others are neither offered nor called."""
    tool_choice: str | None
    """`auto`, `none`, `required` or the name of a tool: what the first answer has to be."""
    reply_type: Any
    """A pydantic model, or a JSON Schema of an object: `reply.value` is one."""


@dataclass(frozen=True, slots=True)
class Question:
    """The options of a question."""

    system: str | None = None
    limits: TurnLimits | None = None
    toolset: frozenset[str] | None = None
    tool_choice: str = AUTO
    reply_type: ReplyType | None = None


def read_question(options: Mapping[str, Any], executor: ToolExecutor, provider: Provider) -> Question:
    """The options of a question. Raises UsageError for what cannot be asked."""
    unknown = options.keys() - QuestionOptions.__annotations__.keys()
    if unknown:
        [name, *_] = sorted(unknown)
        raise TypeError(f"there is no option '{name}'; {suggestion(name, QuestionOptions.__annotations__)}")
    toolset, choice = options.get("toolset"), options.get("tool_choice") or AUTO
    if isinstance(toolset, str) or (toolset is not None and not all(isinstance(it, str) for it in toolset)):
        raise UsageError(f"toolset must be the names of tools, not {toolset!r:.100}.")
    chosen = [] if choice in (AUTO, NONE, REQUIRED) else [choice]
    if executor.pending_tools is None:  # else it may still come
        for name in (*(toolset or ()), *chosen):
            if name not in executor.manager:
                raise UsageError(f"There is no tool '{name}'; {suggestion(name, executor.manager.by_name)}.")
    if chosen and toolset is not None and choice not in toolset:
        raise UsageError(f"tool_choice is '{choice}', which is not in the toolset.")
    if choice not in (AUTO, NONE) and not provider.forces_calls:
        raise UsageError(
            f"{provider.label} cannot be made to call a tool: tool_choice must be 'auto' or 'none', not '{choice}'."
        )
    reply_type = options.get("reply_type")
    return Question(
        options.get("system"),
        options.get("limits"),
        None if toolset is None else frozenset(toolset),
        choice,
        None if reply_type is None else ReplyType(reply_type),
    )
