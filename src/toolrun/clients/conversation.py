"""Keeps the list of messages in a form that every provider accepts. Pure: messages in, messages out.

The rules: an answer with tool calls is followed at once by exactly one `ToolMessage` for each call, in the same order
and with the same id. Ids are unique in the whole conversation, names consist of letters, digits, `_` and `-`, and
arguments are objects. Models and other programs break these rules; the functions here repair the messages.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.utils import convert_to_messages, message_chunk_to_message

from toolrun.result import ToolCall

if TYPE_CHECKING:
    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.messages.tool import ToolCall as LangChainCall

    from toolrun.clients.wording import Wording

logger = logging.getLogger("toolrun")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_CALL_BLOCKS: Final = frozenset({"tool_use", "input_json_delta", "tool_call", "tool_call_chunk", "function_call"})
"""Content blocks that repeat the calls. Provider packages rebuild them from `tool_calls`."""
_CUT_OFF: Final = frozenset({"max_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded"})
Content: TypeAlias = str | list[str | dict[Any, Any]]
"""The content of a message, as LangChain declares it."""

_STOP_KEYS: Final = ("stop_reason", "done_reason", "finish_reason")


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One answer of the model, in the form that every provider accepts."""

    message: AIMessage
    calls: Sequence[ToolCall]
    """One for each of `message.tool_calls`, in the same order. Arguments that are not a JSON object stay the text that
    the model sent: the executor refuses them with a message for the model."""


def merge_chunks(chunks: Sequence[AIMessage]) -> AIMessage:
    """One message from the chunks of a stream. Models that cannot stream yield a single `AIMessage`."""
    if len(chunks) == 1:
        return chunks[0]
    return add_ai_message_chunks(*cast(Sequence[AIMessageChunk], chunks))


def normalise_answer(message: AIMessage, used_ids: set[str]) -> ModelAnswer:
    """Bring an answer into the form that every provider accepts, and add the ids of its calls to `used_ids`."""
    given = _calls_of(message)
    if isinstance(message.content, str) and message.content.isspace():  # Anthropic refuses blank text
        message = message.model_copy(update={"content": ""})
    if not given:
        return ModelAnswer(cast(AIMessage, message_chunk_to_message(message)), ())
    calls = [_with_unique_id(call, used_ids) for call in given]
    tool_calls = [_langchain_call(call) for call in calls]
    if tool_calls != message.tool_calls or message.invalid_tool_calls:
        update = {"tool_calls": tool_calls, "invalid_tool_calls": [], "content": _without_call_blocks(message.content)}
        message = message.model_copy(update=update)
    return ModelAnswer(cast(AIMessage, message_chunk_to_message(message)), calls)


def _calls_of(message: AIMessage) -> list[ToolCall]:
    """The calls in order. Arguments that are not an object are text."""
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        # LangChain closes open braces and quotes of streamed arguments, so only the text shows what really came.
        return [
            ToolCall(chunk["id"] or "", chunk["name"] or "", _parse_arguments(chunk["args"]))
            for chunk in message.tool_call_chunks
        ]
    valid = [ToolCall(call["id"] or "", call["name"] or "", call["args"]) for call in message.tool_calls]
    invalid = [
        ToolCall(call["id"] or "", call["name"] or "", _parse_arguments(call["args"]))
        for call in message.invalid_tool_calls
    ]
    return valid + invalid


def _parse_arguments(text: str | None) -> dict[str, Any] | str:
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text
    if value is None:
        return {}
    return value if isinstance(value, dict) else text


def _with_unique_id(call: ToolCall, used_ids: set[str]) -> ToolCall:
    id = call.id
    if not id or id in used_ids:
        id = f"call_{uuid.uuid4().hex[:24]}"
    used_ids.add(id)
    return call if id is call.id else ToolCall(id, call.name, call.arguments)


def _langchain_call(call: ToolCall) -> LangChainCall:
    """The call as LangChain stores it in a message."""
    name = call.name if _NAME.fullmatch(call.name) else _NOT_IN_NAMES.sub("_", call.name)[:64] or "unknown"
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    return {"name": name, "args": arguments, "id": call.id, "type": "tool_call"}


def _without_call_blocks(content: Content) -> Content:
    if not isinstance(content, list):
        return content
    return [block for block in content if not isinstance(block, dict) or block.get("type") not in _CALL_BLOCKS]


def is_cut_off(message: AIMessage) -> bool:
    """Whether the limit on tokens ended the answer. Its calls may be incomplete even if they look complete."""
    metadata = message.response_metadata
    return any(metadata.get(key) in _CUT_OFF for key in _STOP_KEYS)


def is_paused(message: AIMessage) -> bool:
    """Whether the provider wants another request that continues this answer."""
    return message.response_metadata.get("stop_reason") == "pause_turn"


def repair_history(
    history: Iterable[MessageLikeRepresentation], wording: Wording, used_ids: set[str], origin: str = ""
) -> list[BaseMessage]:
    """A history from any program, with one result for every call: missing results are added, stray ones left out.

    `origin` is the provider that gets the history. Content that only another provider understands (such as signed
    reasoning) is left out, too.
    """
    repaired: list[BaseMessage] = []
    messages = convert_to_messages(list(history))
    start = 0
    while start < len(messages):
        end = start + 1
        while end < len(messages) and not isinstance(messages[end], AIMessage):
            end += 1
        first = messages[start]
        if isinstance(first, AIMessage):
            messages[start] = _without_foreign_blocks(first, origin)
        repaired += _repair_exchange(messages[start:end], wording, used_ids)
        start = end
    return repaired


def _without_foreign_blocks(message: AIMessage, origin: str) -> AIMessage:
    """The answer, reduced to its text and its calls if it comes from another provider."""
    content = message.content
    if isinstance(content, str) or message.response_metadata.get("model_provider", "") == origin:
        return message
    if all(isinstance(block, str) or block.get("type") == "text" for block in content):
        return message
    return message.model_copy(update={"content": str(message.text)})


def _repair_exchange(messages: Sequence[BaseMessage], wording: Wording, used_ids: set[str]) -> Iterable[BaseMessage]:
    """An answer of the model and all messages up to the next answer."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    others = [message for message in messages if not isinstance(message, ToolMessage)]
    first = messages[0]
    if not isinstance(first, AIMessage):
        _warn_of_stray(results)
        return others
    given = _calls_of(first)
    answer = normalise_answer(first, used_ids)
    matched = []
    for before, call in zip(given, answer.calls, strict=True):
        found = next((result for result in results if result.tool_call_id == before.id), None)
        if found is None:
            matched.append(tool_message(call, f"Error: {wording.no_record}", failed=True))
            continue
        results.remove(found)
        matched.append(found if before.id == call.id else found.model_copy(update={"tool_call_id": call.id}))
    _warn_of_stray(results)
    return [answer.message, *matched, *others[1:]]


def _warn_of_stray(results: Sequence[ToolMessage]) -> None:
    if results:
        logger.warning("the history has %d tool results that belong to no call; they are left out", len(results))


def tool_message(call: ToolCall, content: Content, *, failed: bool) -> ToolMessage:
    """The message with the result of a call."""
    status: Literal["success", "error"] = "error" if failed else "success"
    return ToolMessage(content=content, tool_call_id=call.id, name=_langchain_call(call)["name"], status=status)


def question_message(text_or_message: str | BaseMessage) -> BaseMessage:
    return HumanMessage(content=text_or_message) if isinstance(text_or_message, str) else text_or_message
