"""What was said before, for as long as it matters. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_QUESTIONS: Final = 20
"""What is further back is forgotten, however fast people talk: small models read no more than a few pages."""


class Memory:
    """One conversation, which is forgotten some time after its last answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._messages: Sequence[BaseMessage] = ()
        self._time = 0.0

    def recall(self, now: float) -> list[BaseMessage]:
        """The conversation so far; nothing if it was too long ago."""
        if now - self._time >= self._seconds:
            self._messages = ()
        return list(self._messages)

    def keep(self, messages: Sequence[BaseMessage], now: float) -> None:
        """Remember a conversation, which was complete a moment ago."""
        questions = [index for index, message in enumerate(messages) if message.type == "human"]
        start = questions[-_QUESTIONS] if len(questions) > _QUESTIONS else 0
        self._messages, self._time = messages[start:], now
