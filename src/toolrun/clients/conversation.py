"""Keeps the list of messages in a form that every provider accepts. Pure: messages in, messages out.

The rules: an answer with tool calls is followed at once by exactly one `ToolMessage` for each call, in the same order
and with the same id. Ids are unique in the whole conversation and short, names consist of letters, digits, `_` and `-`,
arguments are objects, texts are not blank, and everything is JSON. Models, tools, people and other programs break these
rules; the functions here repair the messages.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.utils import message_chunk_to_message

from toolrun.clients.foreign_message import read_messages
from toolrun.clients.message_content import (
    Audience,
    Content,
    cleaned_answer,
    cleaned_result,
    cleaned_text,
    cleaned_words,
)
from toolrun.clients.sendable import kind_of, sendable_json
from toolrun.logger import get_logger
from toolrun.result import ToolCall

if TYPE_CHECKING:
    from langchain_core.messages.tool import ToolCall as LangChainCall

    from toolrun.clients.provider import Provider
    from toolrun.clients.wording import Wording

logger = get_logger("toolrun")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""OpenAI's limit on the length, Anthropic's on the characters."""
_CALL_BLOCKS: Final = frozenset({"tool_use", "input_json_delta", "tool_call", "tool_call_chunk", "function_call"})
"""Content blocks that repeat the calls. Provider packages rebuild them from `tool_calls`."""


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
    message = cleaned_answer(message)
    if not given:
        return ModelAnswer(cast(AIMessage, message_chunk_to_message(message)), ())
    calls = [_with_unique_id(call, used_ids) for call in given]
    tool_calls = [_langchain_call(call) for call in calls]
    if tool_calls != message.tool_calls or message.invalid_tool_calls:
        update = {"tool_calls": tool_calls, "invalid_tool_calls": [], "content": _without_call_blocks(message.content)}
        message = message.model_copy(update=update)
    return ModelAnswer(cast(AIMessage, message_chunk_to_message(message)), calls)


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """The answer with calls in place of its text, which said the same."""
    return message.model_copy(update={"content": "", "tool_calls": [_langchain_call(call) for call in calls]})


def _calls_of(message: AIMessage) -> list[ToolCall]:
    """The calls of LangChain's message in order: `tool_calls`, and among them those that are not valid, as text."""
    valid = iter([ToolCall(call["id"] or "", call["name"] or "", call["args"]) for call in message.tool_calls])
    invalid = [
        ToolCall(call["id"] or "", call["name"] or "", _read_arguments(call["args"]))
        for call in message.invalid_tool_calls
    ]
    chunks = message.tool_call_chunks if isinstance(message, AIMessageChunk) else []
    if len(chunks) != len(message.tool_calls) + len(invalid):
        return [*valid, *invalid]
    return list(_without_guesses([chunk["args"] or "" for chunk in chunks], valid, message, iter(invalid)))


def _without_guesses(
    texts: Sequence[str], valid: Iterator[ToolCall], message: AIMessage, invalid: Iterator[ToolCall]
) -> Iterator[ToolCall]:
    """LangChain closes open braces and quotes of streamed arguments. Such a call gets the text that really came."""
    refused = [call["args"] for call in message.invalid_tool_calls]
    for text in texts:
        if refused and (refused[0] or "") == text:
            refused.pop(0)
            yield next(invalid)
            continue
        call = next(valid)
        is_guess = isinstance(_read_arguments(text), str)
        yield ToolCall(call.id, call.name, text) if is_guess else call


def _read_arguments(text: str | None) -> dict[str, Any] | str:
    """The object that a text is, or the text."""
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    if value is None:
        return {}
    return value if isinstance(value, dict) else text


def _with_unique_id(call: ToolCall, used_ids: set[str]) -> ToolCall:
    id = call.id
    if not _ID.fullmatch(id) or id in used_ids:
        id = f"call_{uuid.uuid4().hex[:24]}"
    used_ids.add(id)
    return call if id is call.id else ToolCall(id, call.name, call.arguments)


def _langchain_call(call: ToolCall) -> LangChainCall:
    """The call as LangChain stores it in a message."""
    name = call.name if _NAME.fullmatch(call.name) else _NOT_IN_NAMES.sub("_", call.name)[:64] or "unknown"
    arguments = sendable_json(call.arguments) if isinstance(call.arguments, dict) else {}
    return {"name": name, "args": cast(dict[str, Any], arguments), "id": call.id, "type": "tool_call"}


def _without_call_blocks(content: Content) -> Content:
    if not isinstance(content, list):
        return content
    return [block for block in content if kind_of(block) not in _CALL_BLOCKS]


def repair_history(
    history: Iterable[Any], wording: Wording, used_ids: set[str], provider: Provider
) -> list[BaseMessage]:
    """A history from any program, with one result for every call: missing results are added, stray ones left out.

    Content that only another provider understands (such as signed reasoning) is left out, too. Raises UsageError.
    """
    shown = Audience(provider, wording)
    messages = read_messages(history)
    instructions = [message for message in messages if isinstance(message, SystemMessage)]
    rest = [message for message in messages if not isinstance(message, SystemMessage)]
    # Providers take instructions only at the beginning.
    repaired: list[BaseMessage] = [it for it in (cleaned_words(message, shown) for message in instructions) if it.text]
    start = 0
    while start < len(rest):
        end = start + 1
        while end < len(rest) and not isinstance(rest[end], AIMessage):
            end += 1
        repaired += _repair_exchange(rest[start:end], shown, used_ids)
        start = end
    return repaired


def repair_answer(answer: ModelAnswer, used_ids: set[str], provider: Provider) -> ModelAnswer:
    """An answer whose calls have no results yet, as `repair_history` repairs one. The ids of its calls stay."""
    message = normalise_answer(_without_foreign_blocks(answer.message, provider), used_ids).message
    return ModelAnswer(message, answer.calls)


def ensure_user_first(messages: list[BaseMessage], wording: Wording) -> list[BaseMessage]:
    """The messages, with one before an answer that has no question: some providers insist on it."""
    first = next((index for index, it in enumerate(messages) if not isinstance(it, SystemMessage)), None)
    if first is None or isinstance(messages[first], HumanMessage):
        return messages
    return [*messages[:first], HumanMessage(content=wording.no_beginning), *messages[first:]]


def _repair_exchange(messages: Sequence[BaseMessage], shown: Audience, used_ids: set[str]) -> Iterable[BaseMessage]:
    """An answer of the model and all messages up to the next answer."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    first = messages[0] if isinstance(messages[0], AIMessage) else None
    words = [message for message in messages if message is not first and not isinstance(message, ToolMessage)]
    others = [it for it in (cleaned_words(message, shown) for message in words) if it.content]
    if first is None:
        _warn_of_stray(results)
        return others
    given = _calls_of(first)
    answer = normalise_answer(_without_foreign_blocks(first, shown.provider), used_ids)
    matched: list[BaseMessage] = []
    images: list[Any] = []
    for before, call in zip(given, answer.calls, strict=True):
        found = next((result for result in results if result.tool_call_id == before.id), None)
        if found is None:
            matched.append(tool_message(call, f"Error: {shown.wording.no_record}", failed=True))
            continue
        results.remove(found)
        result, following = cleaned_result(found, shown)
        images += following
        matched.append(result if before.id == call.id else result.model_copy(update={"tool_call_id": call.id}))
    _warn_of_stray(results)
    if images:
        matched.append(HumanMessage(content=images))
    is_empty = not answer.calls and not answer.message.content
    return [*([] if is_empty else [answer.message]), *matched, *others]


def _without_foreign_blocks(message: AIMessage, provider: Provider) -> AIMessage:
    """The answer, reduced to its text and its calls if it comes from another provider.

    Of its own answers a provider takes back what it says to the model, but no image or sound that was for the user.
    """
    content = message.content
    if isinstance(content, str) or all(isinstance(block, str) or kind_of(block) == "text" for block in content):
        return message
    if message.response_metadata.get("model_provider", "") != provider.origin:
        return message.model_copy(update={"content": cleaned_text(content)})
    taken = provider.answer_blocks or ".*"
    kept = [block for block in content if isinstance(block, str) or re.fullmatch(taken, kind_of(block))]
    return message if len(kept) == len(content) else message.model_copy(update={"content": kept})


def _warn_of_stray(results: Sequence[ToolMessage]) -> None:
    if results:
        logger.warning("the history has %d tool results that belong to no call; they are left out", len(results))


def tool_message(call: ToolCall, content: Content, *, failed: bool) -> ToolMessage:
    """The message with the result of a call."""
    status: Literal["success", "error"] = "error" if failed else "success"
    return ToolMessage(content=content, tool_call_id=call.id, name=_langchain_call(call)["name"], status=status)


def question_message(question: str | BaseMessage, provider: Provider, wording: Wording) -> BaseMessage:
    """The question, which is never blank."""
    message = HumanMessage(content=question) if isinstance(question, str) else question
    if not isinstance(message, HumanMessage):
        message = HumanMessage(content=cleaned_text(message.content))
    message = cleaned_words(message, Audience(provider, wording))
    return message if message.content else HumanMessage(content=wording.no_question)
