"""Messages of other programs as LangChain's: the SDKs of Anthropic, OpenAI and Ollama, pairs, plain text. Pure.

A history is what somebody else wrote, and some of it breaks the rules of its own format. Nothing is lost in silence: a
role that is not known is the user's, and a call whose arguments cannot be read stays a call, with its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from toolrun.clients.sendable import kind_of, sendable_json, sendable_text
from toolrun.errors import UsageError
from toolrun.json import JSON

_ROLES: Final = {
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call"})
_RESULTS: Final = frozenset({"tool_result", "function_call_output"})
_TEXTS: Final = frozenset({"input_text", "output_text"})


def read_messages(history: Iterable[Any]) -> list[BaseMessage]:
    """LangChain's messages. Those that are LangChain's already are left as they are. Raises UsageError."""
    return [message for index, item in enumerate(history) for message in _read(item, index)]


def _read(item: Any, index: int) -> list[BaseMessage]:
    if isinstance(item, RemoveMessage):
        return []
    if isinstance(item, FunctionMessage):
        return [ToolMessage(content=item.content, tool_call_id=_function_id(item.name), name=item.name)]
    if isinstance(item, ChatMessage):
        return _from_parts(item.role, {"content": item.content})
    if isinstance(item, HumanMessage) and isinstance(item.content, list) and _has_results(item.content):
        return _from_parts("user", {"content": item.content})
    if isinstance(item, AIMessage) and not item.tool_calls and not item.invalid_tool_calls:
        return [_with_calls_of_content(item)]
    if isinstance(item, BaseMessage):
        return [item]
    if isinstance(item, str):
        return [HumanMessage(content=sendable_text(item))]
    if isinstance(item, Sequence) and len(item) == 2 and isinstance(item[0], str):
        return _from_parts(item[0], {"content": item[1]})
    parts = _plain(item)
    if isinstance(parts, Mapping):
        if parts.get("lc") == 1 and isinstance(parts.get("kwargs"), Mapping):  # LangChain's own serialised form
            parts = parts["kwargs"]
        kind = str(parts.get("type", ""))
        if kind in _CALLS or kind in _RESULTS:  # an item of OpenAI's Responses API
            return _from_parts("assistant" if kind in _CALLS else "user", {"content": [parts]})
        if {"role", "type", "content"} & parts.keys():
            return _from_parts(str(parts.get("role") or kind or "user"), parts)
    raise UsageError(
        f"Item {index} of the history is a {type(item).__name__}, not a message. Pass LangChain's messages, "
        "dicts with role and content, or pairs of them."
    )


def _plain(value: Any) -> Any:
    """A value of an SDK as plain data."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    return value


def _from_parts(role: str, parts: Mapping[str, Any]) -> list[BaseMessage]:
    role = _ROLES.get(role, "user")
    blocks = _blocks(parts.get("content", parts.get("parts")))
    if role == "assistant":
        return [_answer(blocks, parts)]
    if role == "tool":
        id = parts.get("tool_call_id") or _function_id(parts.get("name") or parts.get("tool_name"))
        status = "error" if parts.get("status") == "error" else "success"
        return [ToolMessage(content=_content(blocks), tool_call_id=str(id), status=status)]
    if role == "system":
        return [SystemMessage(content=_content(blocks))]
    results = [block for block in blocks if kind_of(block) in _RESULTS]
    others = [block for block in blocks if kind_of(block) not in _RESULTS]
    messages: list[BaseMessage] = [_result(block) for block in results]
    return [*messages, HumanMessage(content=_content(others))] if others or not results else messages


def _blocks(content: Any) -> list[Any]:
    """The content as a list of texts and plain blocks."""
    content = _plain(content)
    if content is None:
        return []
    if isinstance(content, str | Mapping) or not isinstance(content, Iterable):
        content = [content]
    return [block if isinstance(block, str) else _block(sendable_json(_plain(block))) for block in content]


def _block(block: JSON) -> JSON:
    """OpenAI's Responses API has words of its own for text."""
    if isinstance(block, dict) and block.get("type") in _TEXTS and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    return block


def _content(blocks: Sequence[Any]) -> Any:
    if len(blocks) == 1 and isinstance(blocks[0], str):
        return blocks[0]
    kept = [block if isinstance(block, str | dict) else str(block) for block in blocks if block is not None]
    return kept or ""


def _answer(blocks: Sequence[Any], parts: Mapping[str, Any]) -> AIMessage:
    """An answer as its text and its calls: what else there is, only its own provider understands."""
    texts = [
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)
    ]
    calls = [block for block in blocks if kind_of(block) in _CALLS]
    given = parts.get("tool_calls")
    calls += filter(_is_map, map(_plain, given if isinstance(given, Iterable) else ()))
    legacy = _plain(parts.get("function_call"))
    if isinstance(legacy, Mapping):
        calls.append({**legacy, "id": _function_id(legacy.get("name"))})
    # As invalid ones, which keep whatever the arguments are; what is valid in them is found out later.
    return AIMessage(
        content="".join(text for text in texts if isinstance(text, str)),
        tool_calls=[call for call in map(_call, calls) if isinstance(call["args"], dict)],
        invalid_tool_calls=[
            {**call, "error": None, "type": "invalid_tool_call"}
            for call in map(_call, calls)
            if not isinstance(call["args"], dict)
        ],
    )


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _call(given: Mapping[str, Any]) -> Any:
    """A call in any form: `{id, name, args}`, `{id, name, input}`, `{id, function: {name, arguments}}`."""
    function = given.get("function")
    inner = function if isinstance(function, Mapping) else given
    arguments: Any = next((inner[key] for key in ("args", "input", "arguments", "parameters") if key in inner), {})
    if not isinstance(arguments, dict | str):
        arguments = "" if arguments is None else str(arguments)
    id = given.get("call_id") or given.get("id") or _function_id(inner.get("name"))
    return {"name": str(inner.get("name") or ""), "args": arguments, "id": str(id), "type": "tool_call"}


def _result(block: Mapping[str, Any]) -> ToolMessage:
    content = _content(_blocks(block.get("content", block.get("output"))))
    status = "error" if block.get("is_error") else "success"
    id = block.get("tool_use_id") or block.get("call_id") or block.get("id") or ""
    return ToolMessage(content=content, tool_call_id=str(id), status=status)


def _has_results(blocks: Sequence[Any]) -> bool:
    return any(kind_of(block) in _RESULTS for block in blocks)


def _with_calls_of_content(message: AIMessage) -> AIMessage:
    """An answer whose calls are only in its content, or in the old `function_call`."""
    blocks = message.content if isinstance(message.content, list) else []
    in_content = [block for block in blocks if kind_of(block) in _CALLS]
    legacy = message.additional_kwargs.keys() & {"tool_calls", "function_call"}
    if not in_content and not legacy:
        return message
    return _answer(_blocks(message.content), message.additional_kwargs)


def _function_id(name: Any) -> str:
    """The id of a call that has none: results then belong to calls by the name of the tool."""
    return f"function:{name or ''}"
