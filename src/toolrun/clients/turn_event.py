"""What a turn of a conversation gives: events while it goes on, a `Reply` at its end. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from toolrun.result import ToolCall, ToolResult
from toolrun.tools.context import Progress

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of what the model says."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call begins."""

    type: ClassVar[str] = "tool_started"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool says how far it has got."""

    type: ClassVar[str] = "tool_progress"
    call: ToolCall
    progress: Progress


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its answer. One that was refused was never started."""

    type: ClassVar[str] = "tool_finished"
    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a turn."""

    type: ClassVar[str] = "done"
    reply: Reply


Event: TypeAlias = Text | ToolStarted | ToolProgress | ToolFinished | Done


class Ended(StrEnum):
    """Why a turn is over."""

    ANSWER = "answer"
    """The model had said what it wanted to say."""
    LENGTH = "length"
    """Its answer was cut off by the limit on tokens."""
    REPEATS = "repeats"
    """It made the same call again and again, and was asked to answer without tools."""
    ROUNDS = "rounds"
    """It had used its rounds of tools, and was asked to answer without them."""
    CALLS = "calls"
    """It had used its calls, and was asked to answer without them."""
    TIME = "time"
    """The time for tools was over, and it was asked to answer without them."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, of all requests of a turn together, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a question."""

    text: str
    messages: list[BaseMessage] = field(repr=False)
    """The whole conversation until now: pass it on as the `history` of the next question."""
    calls: tuple[ToolFinished, ...] = ()
    """The calls of this turn in the order in which the model made them, refused ones too."""
    usage: Usage = Usage()
    ended: Ended = Ended.ANSWER
