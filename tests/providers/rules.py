"""What the providers refuse in a request, as pure functions: each returns the first problem in words, or None.

The servers enforce these on every request; the property test of the loop applies them to every conversation.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SHORT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def anthropic_problem(body: Body) -> str | None:
    """What the Messages API of Anthropic answers with status 400."""
    for key in ("model", "max_tokens", "messages"):
        if key not in body:
            return f"{key}: Field required"
    return (
        _anthropic_instructions(body.get("system"))
        or _anthropic_tools(body.get("tools") or [])
        or _anthropic_roles(body["messages"])
        or _anthropic_blocks(body["messages"])
        or _anthropic_pairs(body["messages"])
        or _anthropic_needs_tools(body)
    )


def _anthropic_instructions(system: Any) -> str | None:
    wrong = [it for it in _parts(system) if it.get("type") != "text"]
    return f"system: Input tag {wrong[0].get('type')!r} does not match 'text'" if wrong else None


def _anthropic_tools(tools: Sequence[Body]) -> str | None:
    seen = set()
    for index, tool in enumerate(tools):
        name, schema = tool.get("name", ""), tool.get("input_schema")
        if not _NAME.fullmatch(name):
            return f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if name in seen:
            return "tools: Tool names must be unique."
        seen.add(name)
        if not isinstance(schema, Mapping) or schema.get("type") != "object":
            return f"tools.{index}.custom.input_schema.type: Field required"
        if not schema.keys().isdisjoint({"oneOf", "allOf", "anyOf"}):
            return f"tools.{index}.custom.input_schema: oneOf, allOf and anyOf are not supported at the top level"
    return None


def _anthropic_roles(messages: Sequence[Body]) -> str | None:
    if not messages:
        return "messages: at least one message is required"
    if messages[0]["role"] != "user":
        return 'messages: first message must use the "user" role'
    for index, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            return f"messages.{index}.role: Input should be 'user' or 'assistant'"
        if not message["content"] and index < len(messages) - 1:
            return f"messages.{index}: all messages must have non-empty content except for the final assistant message"
    if messages[-1]["role"] == "assistant":
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    return None


def blocks(message: Body) -> list[Body]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _anthropic_blocks(messages: Sequence[Body]) -> str | None:
    for index, message in enumerate(messages):
        for block in blocks(message):
            problem = _anthropic_block(block, message["role"])
            if problem:
                return f"messages.{index}.content: {problem}"
    return None


def _anthropic_block(block: Body, role: str) -> str | None:
    match block.get("type"):
        case "text":
            if "ttl" in (block.get("cache_control") or {}) and block["cache_control"]["ttl"] not in ("5m", "1h"):
                return "text.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
            return None if block["text"].strip() else "text content blocks must contain non-whitespace text"
        case "tool_use":
            if role != "assistant":
                return "`tool_use` blocks can only be in `assistant` messages"
            if not _ID.fullmatch(block["id"] or ""):
                return "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if not _NAME.fullmatch(block["name"]):
                return "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
            if not isinstance(block["input"], Mapping):
                return "tool_use.input: Input should be a valid dictionary"
        case "tool_result":
            return _anthropic_result(block, role)
        case "image":
            return (
                _anthropic_image(block) if role == "user" else "`image` blocks are not permitted in assistant messages"
            )
        case "document" if role == "user":
            return None if isinstance(block.get("source"), Mapping) else "document.source: Field required"
        case "thinking" if role == "assistant":
            return None if block.get("signature") else "thinking.signature: Field required"
        case other:
            return f"Input tag {other!r} found using 'type' does not match any of the expected tags"
    return None


def _anthropic_result(block: Body, role: str) -> str | None:
    if role != "user":
        return "`tool_result` blocks can only be in `user` messages"
    content = block.get("content") or ""
    for inner in [] if isinstance(content, str) else content:
        if inner.get("type") not in ("text", "image"):
            return f"tool_result.content: a {inner.get('type')} block is not permitted here"
        problem = _anthropic_block(inner, "user")
        if problem:
            return f"tool_result.content: {problem}"
    return None


def _anthropic_image(block: Body) -> str | None:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        try:
            base64.b64decode(str(source.get("data", "?")), validate=True)
        except ValueError:
            return "image.source.base64.data: invalid base64 data"
    if source.get("type") == "url" and not re.match("https?://", source.get("url", "")):
        return "image.source.url: Only HTTPS URLs are supported"
    if source.get("type") == "base64" and source.get("media_type") not in _IMAGES:
        return f"image.source.base64.media_type: Input should be one of {', '.join(sorted(_IMAGES))}"
    return None


def _anthropic_pairs(messages: Sequence[Body]) -> str | None:
    """Every `tool_use` has exactly one `tool_result` in the next message, at its beginning, and the other way round."""
    met: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        content = blocks(message)
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        unexpected = [id for id in results if id not in waiting]
        if unexpected:
            return (
                f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` blocks: {unexpected[0]}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if len(results) != len(set(results)):
            return f"messages.{index}.content: each tool_use must have a single result."
        missing = [id for id in waiting if id not in results]
        if missing:
            return (
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}."
            )
        if any(block["type"] != "tool_result" for block in content[: len(results)]):
            return f"messages.{index}.content: `tool_result` blocks must come first"
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        if len(waiting) != len(set(waiting)) or not met.isdisjoint(waiting):
            return f"messages.{index}.content: `tool_use` ids must be unique"
        met.update(waiting)
    return f"messages: `tool_use` ids were found without `tool_result` blocks: {waiting}" if waiting else None


def _anthropic_needs_tools(body: Body) -> str | None:
    uses = any(block["type"] in ("tool_use", "tool_result") for it in body["messages"] for block in blocks(it))
    if uses and not body.get("tools"):
        return "Requests which include `tool_use` or `tool_result` blocks must define tools"
    return None


def openai_problem(body: Body) -> str | None:
    """What Chat Completions answers with status 400."""
    for index, tool in enumerate(body.get("tools") or []):
        if not _SHORT_NAME.fullmatch(tool["function"]["name"]):
            return f"Invalid 'tools[{index}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
    open_ids: list[str] = []
    met: set[str] = set()
    for index, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_ids:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            open_ids.remove(message["tool_call_id"])
        elif open_ids:
            break
        calls = message.get("tool_calls") or []
        problem = _openai_message(message) or next(filter(None, (_openai_call(call, met) for call in calls)), None)
        if problem:
            return f"messages[{index}]: {problem}"
        open_ids += [call["id"] for call in calls]
    return f"These tool_call_ids did not have response messages: {open_ids}" if open_ids else None


def _openai_message(message: Body) -> str | None:
    content, role = message.get("content"), message["role"]
    if role not in ("system", "developer", "user", "assistant", "tool"):
        return f"Invalid value: '{role}' for role"
    if "name" in message and not _SHORT_NAME.fullmatch(message["name"]):
        return "Invalid 'name': string does not match pattern."
    if content is None and not message.get("tool_calls"):
        return "Invalid value for 'content': expected a string, got null."
    if role == "user" and not content:
        return "the content of a user is empty"  # not refused, but nothing to answer
    return next(filter(None, (_openai_block(block, role) for block in _parts(content))), None)


def _openai_call(call: Body, met: set[str]) -> str | None:
    if not 0 < len(call["id"]) <= 40:
        return "Invalid 'tool_calls[0].id': string too long, maximum length 40."
    if call["id"] in met:
        return f"Duplicate value for 'tool_call_id' of '{call['id']}'"
    met.add(call["id"])
    if not _SHORT_NAME.fullmatch(call["function"]["name"]):
        return "Invalid 'tool_calls[0].function.name'"
    return None if isinstance(json.loads(call["function"]["arguments"]), dict) else "arguments are not an object"


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _openai_block(block: Any, role: str) -> str | None:
    match block.get("type"):
        case "text":
            return None if isinstance(block.get("text"), str) else "expected a text"
        case "image_url" if role == "user":
            url = block["image_url"]["url"]
            return None if re.match(r"https?://|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$", url) else url
        case "file" | "input_audio" if role == "user":
            return None
        case other:
            return f"Invalid value: '{other}'"


def ollama_problem(body: Body) -> str | None:
    """What Ollama answers with status 400, and what it does not notice but no model can make sense of.

    Its messages have no ids, so that calls and their results belong together by their order alone.
    """
    if not body.get("model"):
        return "model is required"
    for tool in body.get("tools") or []:
        try:
            ollama_tool(tool)
        except (KeyError, TypeError, ValueError) as error:
            return f"json: cannot unmarshal the tool: {error!r}"
    open_calls = 0
    for index, message in enumerate(body["messages"]):
        if message["role"] not in ("system", "user", "assistant", "tool"):
            return f"messages.{index}: invalid role"
        problem = _ollama_content(message)
        if problem:
            return f"messages.{index}: {problem}"
        if message["role"] == "tool":
            if not open_calls:
                return f"messages.{index}: a result of no call"
            open_calls -= 1
            continue
        if open_calls:
            return f"messages.{index}: {open_calls} calls before it have no result"
        for call in message.get("tool_calls") or []:
            if not isinstance(call["function"]["arguments"], Mapping):
                return "json: cannot unmarshal string into Go struct field ToolCallFunction.arguments"
            if not call["function"]["name"]:
                return f"messages.{index}: a call without a name"
            open_calls += 1
    return f"the last {open_calls} calls have no result" if open_calls else None


def _ollama_content(message: Body) -> str | None:
    for image in message.get("images") or []:
        try:
            base64.b64decode(image, validate=True)
        except ValueError:
            return "illegal base64 data"
    if not isinstance(message.get("content") or "", str):
        return "json: cannot unmarshal array into Go struct field Message.content of type string"
    return None


def ollama_tool(tool: Body) -> dict[str, Any]:
    """A tool as it gets to the model: what the server's own types keep of it."""
    function = tool["function"]
    parameters = function.get("parameters") or {}
    kept: dict[str, Any] = {"type": parameters.get("type", "")}
    kept |= {key: parameters[key] for key in ("$defs", "items", "required") if parameters.get(key)}
    kept["properties"] = {name: _ollama_property(it) for name, it in (parameters.get("properties") or {}).items()}
    description = {"description": function["description"]} if function.get("description") else {}
    return {"type": tool["type"], "function": {"name": function["name"], **description, "parameters": kept}}


def _ollama_property(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise TypeError("a property is no object")
    kind = schema.get("type", "")
    if not isinstance(kind, str) and not (isinstance(kind, list) and all(isinstance(it, str) for it in kind)):
        raise ValueError(f"a property has the type {kind!r}")
    kept = {key: schema[key] for key in ("type", "items", "description", "enum", "required") if schema.get(key)}
    if "anyOf" in schema:
        kept["anyOf"] = [_ollama_property(it) for it in schema["anyOf"]]
    if "properties" in schema:
        kept["properties"] = {name: _ollama_property(it) for name, it in schema["properties"].items()}
    return kept


def gemini_problem(body: Body) -> str | None:
    """What Gemini answers with status 400."""
    for index, tool in enumerate(
        it for tools in body.get("tools") or [] for it in tools.get("functionDeclarations", [])
    ):
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}", tool["name"]):
            return f"GenerateContentRequest.tools[0].function_declarations[{index}].name: Invalid function name."
        problem = _gemini_schema(tool.get("parameters"))
        if problem:
            return f"GenerateContentRequest.tools[0].function_declarations[{index}].parameters{problem}"
    contents = body.get("contents") or []
    if not contents:
        return "GenerateContentRequest.contents: contents is not specified"
    waiting: list[str] = []
    for index, content in enumerate(contents):
        parts = content.get("parts") or []
        if content.get("role") not in ("user", "model"):
            return f"contents[{index}]: Please use a valid role: user, model."
        if not parts or not all(map(_gemini_part, parts)):
            return f"contents[{index}].parts: must not be empty; each part has exactly one kind of data"
        answered = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if answered != waiting:
            return (
                "Please ensure that the number of function response parts is equal to the number of function call parts"
            )
        waiting = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if waiting and content["role"] != "model":
            return f"contents[{index}]: only the model makes calls"
    return "Please ensure that function call turn is followed by a function response turn." if waiting else None


def _gemini_part(part: Body) -> bool:
    kinds = part.keys() & {"text", "functionCall", "functionResponse", "inlineData", "fileData"}
    return len(kinds) == 1 and ("text" not in part or isinstance(part["text"], str))


def _gemini_schema(schema: Any, path: str = "") -> str | None:
    if schema is None:
        return None
    kind = schema.get("type")
    # The API takes fields under both of their names, as all of Google's that read JSON as protocol buffers do.
    if kind is None and "anyOf" not in schema and "any_of" not in schema:
        return f"{path}.type: must be specified"
    if kind == "OBJECT" and not schema.get("properties"):
        return f"{path}.properties: should be non-empty for OBJECT type"
    if kind == "ARRAY" and "items" not in schema:
        return f"{path}.items: missing field"
    inner = {**(schema.get("properties") or {}), **({"items": schema["items"]} if "items" in schema else {})}
    return next(filter(None, (_gemini_schema(it, f"{path}.{name}") for name, it in inner.items())), None)
