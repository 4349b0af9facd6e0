"""The events that listeners of the gateway get. Values only.

Every utterance is `Heard` once and `Answered` once, whatever happens; `ToolActivity` may come in between.
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
    """Where it was heard: `mqtt`, `stdin`, `audio`, `microphone` or a name that the caller chose."""
    conversation: str = ""
    """The stored conversation in which it is answered, and goes on if the process before was killed; empty: none."""


class Outcome(StrEnum):
    """What became of an utterance."""

    ANSWERED = "answered"
    FAILED = "failed"
    """The model gave no answer; the text says why."""
    INTERRUPTED = "interrupted"
    """A newer utterance took its place, or the gateway was stopped. There is no text."""
    REFUSED = "refused"
    """Too many others were waiting."""
    NOT_UNDERSTOOD = "not_understood"


@dataclass(frozen=True, slots=True)
class Heard:
    """Somebody said something."""

    utterance: Utterance


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """A tool call for an utterance."""

    utterance: Utterance
    event: ToolStarted | ToolProgress | ToolFinished
    speech: str = ""
    """A failure as a sentence that can be spoken."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An utterance has its answer, or will get none."""

    utterance: Utterance
    text: str
    """As the model wrote it."""
    speech: str
    """The text in a form that can be spoken."""
    outcome: Outcome = Outcome.ANSWERED


VoiceEvent: TypeAlias = Heard | ToolActivity | Answered
Listener: TypeAlias = Callable[[VoiceEvent], None]
"""Called on the event loop; must return at once."""
