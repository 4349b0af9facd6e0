"""The events of a turn while it runs, and the `Reply` at its end. Values only."""

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
    """A part of the model's answer."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call starts."""

    type: ClassVar[str] = "tool_started"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool reports its progress."""

    type: ClassVar[str] = "tool_progress"
    call: ToolCall
    progress: Progress


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result. A refused call has no `ToolStarted`."""

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
    """Why a turn ended."""

    ANSWER = "answer"
    """The model gave its answer."""
    LENGTH = "length"
    """The limit on tokens cut the answer off."""
    REPEATS = "repeats"
    """The model repeated the same call, and was asked to answer without tools."""
    ROUNDS = "rounds"
    """The model used all its rounds, and was asked to answer without tools."""
    CALLS = "calls"
    """The model used all its calls, and was asked to answer without tools."""
    TIME = "time"
    """The time for tools ran out, and the model was asked to answer without them."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of all requests of a turn, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a question."""

    text: str
    messages: list[BaseMessage] = field(repr=False)
    """The whole conversation so far: the `history` of the next question."""
    calls: tuple[ToolFinished, ...] = ()
    """All calls of this turn, refused ones too, in the order in which the model made them."""
    usage: Usage = Usage()
    ended: Ended = Ended.ANSWER
