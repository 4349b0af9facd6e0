"""The events of a turn while it runs, and the `Reply` at its end. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from toolrun.json import JSON
from toolrun.result import ToolCall, ToolResult
from toolrun.tools.context import Progress

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.ai import UsageMetadata


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the model's answer."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A part of what the model thinks before it answers, if its provider shows that."""

    type: ClassVar[str] = "thought"
    text: str


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """A part of the arguments of a call, as the model writes them. The call starts once the answer is complete."""

    type: ClassVar[str] = "tool_arguments"
    call_id: str
    """As the provider sent it; empty if it has not."""
    name: str
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

    @property
    def arguments(self) -> Mapping[str, JSON] | str | None:
        """The arguments as they were executed: repaired, or changed by whoever approved the call."""
        executed = self.result.edited if self.result.edited is not None else self.result.executed
        return self.call.arguments if executed is None else cast("Mapping[str, JSON]", executed)


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a turn."""

    type: ClassVar[str] = "done"
    reply: Reply


Event: TypeAlias = Text | Thought | ToolArguments | ToolStarted | ToolProgress | ToolFinished | Done


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
    REFUSED = "refused"
    """The model refused to answer. Calls in such an answer are not run."""
    FILTERED = "filtered"
    """A filter of the provider stopped the answer. Calls in such an answer are not run."""
    EMPTY = "empty"
    """The model said nothing, and again nothing when it was asked once more."""
    MALFORMED = "malformed"
    """The model made calls that cannot be read, and did so again when it was asked once more."""

    @property
    def is_failure(self) -> bool:
        """Whether there is no answer."""
        return self in (Ended.REFUSED, Ended.FILTERED, Ended.EMPTY, Ended.MALFORMED)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of all requests of a turn, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Input tokens that came from the provider's cache; a part of `input_tokens`."""
    cache_write_tokens: int = 0
    """Input tokens that the provider put into its cache; a part of `input_tokens`."""
    reasoning_tokens: int = 0
    """Output tokens that the model spent on thinking; a part of `output_tokens`."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, used: UsageMetadata | None) -> Usage:
        """The usage together with that of another answer."""
        if used is None:
            return self
        read, written = used.get("input_token_details", {}), used.get("output_token_details", {})
        # Anthropic's package counts cache writes by their lifetime, and then not as a whole.
        cached = [read.get(key) for key in ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")]
        return Usage(
            self.input_tokens + used["input_tokens"],
            self.output_tokens + used["output_tokens"],
            self.cache_read_tokens + (read.get("cache_read") or 0),
            self.cache_write_tokens + sum(cast(int, it or 0) for it in cached),
            self.reasoning_tokens + (written.get("reasoning") or 0),
        )


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
    conversation: str = ""
    """The id under which the conversation is kept; empty if it is not."""
    value: Any = None
    """With `reply_type`: the answer as a model of pydantic, or as JSON data. None if there is no answer."""
