"""What the gateway tells its listeners. Values only.

Every utterance is `Heard` once and `Answered` once, whatever happens; in between there may be `ToolActivity`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from toolrun.clients.turn_event import ToolFinished, ToolProgress, ToolStarted


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something that was said."""

    id: str
    text: str
    """Empty if it could not be understood."""
    source: str = ""
    """Where it was heard: `mqtt`, `stdin`, `audio`, `microphone` or whatever the caller says."""


class Outcome(StrEnum):
    """What became of an utterance."""

    ANSWERED = "answered"
    FAILED = "failed"
    """The model gave no answer; the words say why."""
    INTERRUPTED = "interrupted"
    """A newer utterance took its place, or the gateway was stopped. There are no words."""
    REFUSED = "refused"
    """Too many others were waiting."""
    NOT_UNDERSTOOD = "not_understood"


@dataclass(frozen=True, slots=True)
class Heard:
    """Somebody said something."""

    utterance: Utterance


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """A tool is used for an utterance."""

    utterance: Utterance
    event: ToolStarted | ToolProgress | ToolFinished
    speech: str = ""
    """A failure in words that can be spoken."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An utterance is dealt with."""

    utterance: Utterance
    text: str
    """As the model wrote it."""
    speech: str
    """The same in words that can be spoken."""
    outcome: Outcome = Outcome.ANSWERED


VoiceEvent: TypeAlias = Heard | ToolActivity | Answered
Listener: TypeAlias = Callable[[VoiceEvent], None]
"""Is called on the event loop, and has to return at once."""
