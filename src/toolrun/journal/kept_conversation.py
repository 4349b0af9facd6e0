"""A stored conversation as a list shows it: its row and the beginning of its first question. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from toolrun.json import JSON, JSONDecodeError, loads
from toolrun.text import cut

_FIRST: Final = 80
"""Characters of the first question to show."""


@dataclass(frozen=True, slots=True)
class KeptConversation:
    """A conversation that can be continued."""

    conversation: str
    model: str
    consumer: str
    """The command that held it."""
    created_at: int
    """In microseconds since 1970, as `updated_at`."""
    updated_at: int
    messages: int
    questions: int
    first_question: str

    def to_dict(self) -> dict[str, JSON]:
        return asdict(self)


def kept_conversation(row: Sequence[Any]) -> KeptConversation:
    """From a row of `conversations`, whose last column is the first question as a message."""
    name, model, consumer, created_at, updated_at, messages, questions, message = row
    return KeptConversation(name, model, consumer, created_at, updated_at, messages, questions, _words_of(message))


def _words_of(message: str | None) -> str:
    try:
        value = loads(message or "{}")
    except JSONDecodeError:
        return ""
    data = value.get("data", value) if isinstance(value, dict) else None
    content = data.get("content") if isinstance(data, dict) else None
    if isinstance(content, list):
        content = " ".join(str(it.get("text", "")) for it in content if isinstance(it, dict))
    return cut(" ".join(str(content or "").split()), _FIRST)
