"""Why a model's answer ended, in the words of the providers. Pure.

Each provider has a key of its own for the reason, each package its own way to pass it on: text in any case, the name or
the member of an enumeration, a block of content. What is not known is an end like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from langchain_core.messages import AIMessage

from toolrun.clients.turn_event import Ended

_KEYS: Final = ("stop_reason", "done_reason", "finish_reason", "stopReason", "finishReason")
_HOLDERS: Final = {"incomplete_details": "reason", "prompt_feedback": "block_reason", "promptFeedback": "blockReason"}
"""Objects that have the reason inside: OpenAI's Responses, Gemini."""
_PREFIX: Final = re.compile(r"^(?:finish|stop|block(?:ed)?)_reason_")
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDINGS: Final = {
    Ended.LENGTH: "max_tokens length model_context_window_exceeded max_output_tokens model_length error_limit",
    Ended.REFUSED: "refusal",
    Ended.FILTERED: "content_filter content_filtered guardrail_intervened safety image_safety recitation "
    "image_recitation blocklist prohibited_content image_prohibited_content spii model_armor error_toxic language "
    "jailbreak",
    Ended.MALFORMED: "malformed_function_call malformed_tool_use malformed_model_output malformed_response "
    "unexpected_tool_call too_many_tool_calls missing_thought_signature",
}
"""The words of the providers, in lower case."""
_ENDED_BY: Final = {word: ended for ended, words in _ENDINGS.items() for word in words.split()}


def stopped_by(message: AIMessage) -> Ended | None:
    """What stopped an answer before its end, if something did. Its calls may be incomplete, or not to be run."""
    for reason in _reasons(message.response_metadata):
        found = _ENDED_BY.get(_word(reason))
        if found is not None:
            return found
    return Ended.REFUSED if refusal_of(message) is not None else None


def refusal_of(message: AIMessage) -> str | None:
    """The words with which a model refuses, if they are kept apart from its answer."""
    said = message.additional_kwargs.get("refusal")
    blocks = [_inner(block) for block in message.content] if isinstance(message.content, list) else []
    refusals = [block.get("refusal") or "" for block in blocks if block.get("type") == "refusal"]
    if said or refusals:
        return "\n".join(str(it) for it in (said, *refusals) if it)
    return None


def with_refusal_as_text(message: AIMessage) -> AIMessage:
    """The answer, with the words of a refusal as its text if it has no other."""
    words = refusal_of(message)
    if not words or str(message.text).strip():
        return message
    more = {**message.additional_kwargs, "refusal": words}
    return message.model_copy(update={"content": words, "additional_kwargs": more})


def is_paused(message: AIMessage) -> bool:
    """Whether the provider wants another request that continues this answer."""
    return message.response_metadata.get("stop_reason") == "pause_turn"


def _reasons(metadata: Mapping[str, Any]) -> Iterator[object]:
    for key in _KEYS:
        yield metadata.get(key)
    for holder, key in _HOLDERS.items():
        held = metadata.get(holder)
        yield held.get(key) if isinstance(held, Mapping) else None


def _word(reason: object) -> str:
    """`FinishReason.SAFETY`, `FINISH_REASON_SAFETY`, `contentFilter` and `content-filter` as one of our words."""
    name = reason.name if isinstance(reason, Enum) else reason if isinstance(reason, str) else ""
    last = name.rpartition(".")[2].strip()
    word = last if last.isupper() else _INNER_CAPITAL.sub("_", last)
    return _PREFIX.sub("", word.lower().replace("-", "_").replace(" ", "_"))


def _inner(block: object) -> Mapping[str, Any]:
    """A block of content, also one that LangChain's own form wraps."""
    if not isinstance(block, Mapping):
        return {}
    value = block.get("value")
    return value if block.get("type") == "non_standard" and isinstance(value, Mapping) else block
