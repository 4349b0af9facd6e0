"""Why an answer ended, in whatever words and places providers and their packages say it."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from toolrun.clients import Ended
from toolrun.clients.stop_reason import refusal_of, stopped_by, with_refusal_as_text

REASONS: dict[Ended | None, list[Any]] = {
    Ended.LENGTH: ["max_tokens", "length", "max_output_tokens", "model_context_window_exceeded"],
    Ended.REFUSED: ["refusal"],
    Ended.FILTERED: [
        *("content_filter", "content_filtered", "guardrail_intervened", "safety", "image_safety", "recitation"),
        *("blocklist", "prohibited_content", "spii", "model_armor", "error_toxic"),
    ],
    Ended.MALFORMED: [
        "malformed_function_call",
        "malformed_tool_use",
        "malformed_model_output",
        "unexpected_tool_call",
    ],
    None: [
        "stop",
        "end_turn",
        "tool_use",
        "tool_calls",
        "STOP",
        "FINISH_REASON_UNSPECIFIED",
        "",
        "complete",
        7,
        None,
        {},
    ],
}
KNOWN = [(word, ended) for ended, words in REASONS.items() for word in words]


def places(reason: Any) -> list[dict[str, Any]]:
    keys = ("stop_reason", "done_reason", "finish_reason", "stopReason", "finishReason")
    inside = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return [*({key: reason} for key in keys), inside, {"prompt_feedback": {"block_reason": reason}}]


def forms(word: Any) -> list[Any]:
    if not isinstance(word, str) or not word:
        return [word]
    first, *others = word.lower().split("_")
    camel = first + "".join(it.title() for it in others)
    upper = word.upper()
    member: Any = Enum("FinishReason", {upper: 3})  # type: ignore[misc]  # its name is the subject
    return [word, upper, camel, word.replace("_", "-"), f"FinishReason.{upper}", f"FINISH_REASON_{upper}", member(3)]


@pytest.mark.parametrize(("word", "ended"), KNOWN, ids=lambda it: str(it))
def test_a_reason_is_known_in_every_form_and_place(word: Any, ended: Ended | None) -> None:
    for form in forms(word):
        for metadata in places(form):
            assert stopped_by(AIMessage("", response_metadata=metadata)) is ended, metadata


REFUSALS = [
    AIMessage("", additional_kwargs={"refusal": "I cannot."}),
    AIMessage([{"type": "refusal", "refusal": "I cannot."}]),
    AIMessage([{"type": "text", "text": " "}, {"type": "refusal", "refusal": "I cannot."}]),
    AIMessage([{"type": "non_standard", "value": {"type": "refusal", "refusal": "I cannot."}}]),
]


@pytest.mark.parametrize("message", REFUSALS)
def test_a_refusal_beside_the_text_is_known_and_becomes_the_text(message: AIMessage) -> None:
    assert stopped_by(message) is Ended.REFUSED
    said = with_refusal_as_text(message)
    assert (said.text, stopped_by(said), refusal_of(said)) == ("I cannot.", Ended.REFUSED, "I cannot.")
    assert with_refusal_as_text(said) is said


def test_a_refusal_without_words_is_one_and_a_text_stays() -> None:
    assert stopped_by(AIMessage([{"type": "refusal"}])) is Ended.REFUSED
    message = AIMessage("Hm.", additional_kwargs={"refusal": "I cannot."})
    assert with_refusal_as_text(message) is message
    assert refusal_of(AIMessage("I refuse.")) is None
