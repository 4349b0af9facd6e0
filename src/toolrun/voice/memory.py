"""The history of the conversation, until it expires. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_MAX_QUESTIONS: Final = 20
"""Older ones are forgotten: small models have a context of a few pages."""


class Memory:
    """One conversation, which expires some time after its last answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._messages: Sequence[BaseMessage] = ()
        self._time = 0.0

    def recall(self, now: float) -> list[BaseMessage]:
        """The conversation so far; empty if it has expired."""
        if now - self._time >= self._seconds:
            self._messages = ()
        return list(self._messages)

    def keep(self, messages: Sequence[BaseMessage], now: float) -> None:
        """Remember a conversation whose last answer was given now."""
        questions = [index for index, message in enumerate(messages) if message.type == "human"]
        start = questions[-_MAX_QUESTIONS] if len(questions) > _MAX_QUESTIONS else 0
        self._messages, self._time = messages[start:], now
