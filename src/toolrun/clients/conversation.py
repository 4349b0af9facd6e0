"""The list of messages, kept in a state that every provider accepts. Pure: messages in, messages out.

The rules: an answer of the model with tool calls is followed at once by exactly one `ToolMessage` for each of them, in
their order, with the same id. Ids are unique in the whole conversation, names are made of letters, digits, `_` and `-`,
arguments are objects. What a model or another program did to these rules is put right here.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.utils import convert_to_messages, message_chunk_to_message

from toolrun.result import ToolCall

if TYPE_CHECKING:
    from langchain_core.messages.tool import ToolCall as LangChainCall

    from toolrun.clients.wording import Wording

logger = logging.getLogger("toolrun")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_CALL_BLOCKS: Final = frozenset({"tool_use", "input_json_delta", "tool_call", "tool_call_chunk", "function_call"})
"""Content blocks that repeat the calls; provider packages make them anew from `tool_calls`."""
_CUT_OFF: Final = frozenset({"max_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded"})
_STOP_KEYS: Final = ("stop_reason", "done_reason", "finish_reason")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said in one go."""

    message: AIMessage
    calls: Sequence[ToolCall]
    """One for each of `message.tool_calls`, in the same order. Arguments that are no JSON object are the text as it
    came, for the executor to judge."""


def join(chunks: Sequence[AIMessage]) -> AIMessage:
    """One message from the pieces of a stream. Models that cannot stream give one piece, which is no chunk."""
    if len(chunks) == 1:
        return chunks[0]
    return add_ai_message_chunks(*cast(Sequence[AIMessageChunk], chunks))


def settle(message: AIMessage, taken: set[str]) -> Answer:
    """Bring an answer into the form that every provider accepts. The ids of its calls are added to `taken`."""
    calls = _calls_of(message)
    if isinstance(message.content, str) and message.content.isspace():  # Anthropic takes no text that says nothing
        message = message.model_copy(update={"content": ""})
    if not calls:
        return Answer(cast(AIMessage, message_chunk_to_message(message)), ())
    settled = [_settle_call(call, taken) for call in calls]
    recorded = [_recorded(call) for call in settled]
    if recorded != message.tool_calls or message.invalid_tool_calls:
        update = {"tool_calls": recorded, "invalid_tool_calls": [], "content": _without_calls(message.content)}
        message = message.model_copy(update=update)
    return Answer(cast(AIMessage, message_chunk_to_message(message)), settled)


def _calls_of(message: AIMessage) -> list[ToolCall]:
    """The calls in their order, with arguments as text where they are no object."""
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        # LangChain closes open braces and quotes of streamed arguments by itself, so only the text tells what came.
        return [
            ToolCall(chunk["id"] or "", chunk["name"] or "", _read_arguments(chunk["args"]))
            for chunk in message.tool_call_chunks
        ]
    valid = [ToolCall(call["id"] or "", call["name"] or "", call["args"]) for call in message.tool_calls]
    invalid = [
        ToolCall(call["id"] or "", call["name"] or "", _read_arguments(call["args"]))
        for call in message.invalid_tool_calls
    ]
    return valid + invalid


def _read_arguments(text: str | None) -> dict[str, Any] | str:
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text
    if value is None:
        return {}
    return value if isinstance(value, dict) else text


def _settle_call(call: ToolCall, taken: set[str]) -> ToolCall:
    id = call.id
    if not id or id in taken:
        id = f"call_{uuid.uuid4().hex[:24]}"
    taken.add(id)
    return call if id is call.id else ToolCall(id, call.name, call.arguments)


def _recorded(call: ToolCall) -> LangChainCall:
    """A call as it stands in the conversation."""
    name = call.name if _NAME.fullmatch(call.name) else _NOT_IN_NAMES.sub("_", call.name)[:64] or "unknown"
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    return {"name": name, "args": arguments, "id": call.id, "type": "tool_call"}


def _without_calls(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [block for block in content if not isinstance(block, dict) or block.get("type") not in _CALL_BLOCKS]


def is_cut_off(message: AIMessage) -> bool:
    """Whether the limit on tokens ended the answer. Its calls may be incomplete, however whole they look."""
    metadata = message.response_metadata
    return any(metadata.get(key) in _CUT_OFF for key in _STOP_KEYS)


def is_paused(message: AIMessage) -> bool:
    """Whether the provider wants to be asked again with what it said so far."""
    return message.response_metadata.get("stop_reason") == "pause_turn"


def heal(history: Iterable[Any], wording: Wording, taken: set[str], origin: str = "") -> list[BaseMessage]:
    """A history from anywhere, with every call answered: missing results are made up, stray ones left out.

    `origin` is the provider that it is for: what only another one can read (such as signed thoughts) is left out, too.
    """
    healed: list[BaseMessage] = []
    messages = convert_to_messages(list(history))
    start = 0
    while start < len(messages):
        end = start + 1
        while end < len(messages) and not isinstance(messages[end], AIMessage):
            end += 1
        first = messages[start]
        if isinstance(first, AIMessage):
            messages[start] = _readable(first, origin)
        healed += _heal_exchange(messages[start:end], wording, taken)
        start = end
    return healed


def _readable(message: AIMessage, origin: str) -> AIMessage:
    """An answer of another provider's model, reduced to its text and its calls."""
    content = message.content
    if isinstance(content, str) or message.response_metadata.get("model_provider", "") == origin:
        return message
    if all(isinstance(block, str) or block.get("type") == "text" for block in content):
        return message
    return message.model_copy(update={"content": str(message.text)})


def _heal_exchange(messages: Sequence[BaseMessage], wording: Wording, taken: set[str]) -> Iterable[BaseMessage]:
    """An answer of the model and what follows until the next one."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    others = [message for message in messages if not isinstance(message, ToolMessage)]
    first = messages[0]
    if not isinstance(first, AIMessage):
        if results:
            logger.warning("the history has %d tool results that belong to no call; they are left out", len(results))
        return others
    given = _calls_of(first)
    answer = settle(first, taken)
    matched = []
    for before, call in zip(given, answer.calls, strict=True):
        found = next((result for result in results if result.tool_call_id == before.id), None)
        if found is None:
            matched.append(tool_message(call, f"Error: {wording.no_record}", failed=True))
            continue
        results.remove(found)
        matched.append(found if before.id == call.id else found.model_copy(update={"tool_call_id": call.id}))
    if results:
        logger.warning("the history has %d tool results that belong to no call; they are left out", len(results))
    return [answer.message, *matched, *others[1:]]


def tool_message(call: ToolCall, content: str | list[str | dict[Any, Any]], *, failed: bool) -> ToolMessage:
    """The result of a call as it stands in the conversation."""
    status: Any = "error" if failed else "success"
    return ToolMessage(content=content, tool_call_id=call.id, name=_recorded(call)["name"], status=status)


def question(text_or_message: str | BaseMessage) -> BaseMessage:
    return HumanMessage(content=text_or_message) if isinstance(text_or_message, str) else text_or_message
