"""Tool calls by constrained output, for models not trained to call tools: prompt, output schema and parser. Pure.

llama.cpp lets the model generate nothing that the schema does not allow, so even the smallest model makes well-formed
calls. The executor validates them with the whole schema of the tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from toolrun.json import JSON, Schema
from toolrun.schema.description import describe
from toolrun.schema.value import local_reference

_MAX_DEPTH: Final = 6
"""Levels of a schema that are enforced. Below them, any JSON is allowed."""
_ANSWER_START: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_CALL_START: Final = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_STRING_CHARACTERS: Final = re.compile(r'(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})+')
_HIGH_SURROGATE: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
"""The first half of a surrogate pair. It is decoded together with the second."""


class FunctionDefinition(NamedTuple):
    """A tool, as OpenAI's format defines it."""

    name: str
    description: str
    parameters: Schema


def function_definitions(tools: Sequence[Mapping[str, Any]]) -> list[FunctionDefinition]:
    """The tools of a request in OpenAI's format."""
    given = [tool["function"] for tool in tools]
    return [FunctionDefinition(it["name"], it.get("description", ""), it.get("parameters") or {}) for it in given]


def output_schema(tools: Sequence[FunctionDefinition]) -> Schema:
    """The schema of the output: a call of one of the tools, or an answer."""
    calls = [
        _object({"tool": {"const": tool.name}, "arguments": enforced_schema(tool.parameters, tool.parameters)})
        for tool in tools
    ]
    return {"anyOf": [*calls, _object({"answer": {"type": "string"}})]}


def enforced_schema(schema: JSON, root: Schema, depth: int = 0) -> Schema:
    """The part of a schema that is enforced during generation: types, enums and the names of properties."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    target = local_reference(root, schema.get("$ref"))
    if target:
        return enforced_schema(target[1], root, depth + 1)
    if "const" in schema:
        return {"const": schema["const"]}
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return {"enum": options}
    parts = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(parts, list) and parts and "type" not in schema:
        return {"anyOf": [enforced_schema(part, root, depth + 1) for part in parts]}
    type_name = schema.get("type", "object" if "properties" in schema or depth == 0 else None)
    if isinstance(type_name, list):
        return (
            {"anyOf": [enforced_schema({**schema, "type": one}, root, depth + 1) for one in type_name]}
            if type_name
            else {}
        )
    return _enforced_type(type_name, schema, root, depth)


def _enforced_type(type_name: JSON, schema: Schema, root: Schema, depth: int) -> Schema:
    match type_name:
        case "object":
            properties = schema.get("properties")
            if not isinstance(properties, dict) or (not properties and depth):
                return {"type": "object"}
            kept = {name: enforced_schema(part, root, depth + 1) for name, part in properties.items()}
            required = schema.get("required")
            needed = [name for name in required if name in kept] if isinstance(required, list) else []
            return _object(kept, needed)
        case "array":
            return {"type": "array", "items": enforced_schema(schema.get("items"), root, depth + 1)}
        case "integer":
            bounds = {key: schema[key] for key in ("minimum", "maximum") if isinstance(schema.get(key), int)}
            return {"type": "integer", **bounds}
        case "string" | "number" | "boolean" | "null":
            return {"type": type_name}
    return {}


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> Schema:
    needed: list[JSON] = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def chat_messages(messages: Sequence[BaseMessage], tools: Sequence[FunctionDefinition]) -> list[dict[str, str]]:
    """The conversation for a chat template with system, user and assistant, where roles must alternate."""
    system = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
    if tools:
        system.append(_instructions(tools))
    turns = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        role = "assistant" if isinstance(message, AIMessage) else "user"
        content = _message_text(message, has_tools=bool(tools))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += f"\n\n{content}"
        else:
            turns.append({"role": role, "content": content})
    return turns


def _instructions(tools: Sequence[FunctionDefinition]) -> str:
    lines = [f"{tool.name}: {' '.join(tool.description.split())}\n{describe(tool.parameters)}" for tool in tools]
    return _prompt() + "\n".join(lines)


@cache
def _prompt() -> str:
    return files("toolrun.clients.local").joinpath("constrained.txt").read_text(encoding="utf-8")


def _message_text(message: BaseMessage, *, has_tools: bool) -> str:
    text = str(message.text)
    if isinstance(message, ToolMessage):
        return f"Result of {message.name or 'the tool'}: {text}"
    if not isinstance(message, AIMessage) or not (has_tools or message.tool_calls):
        return text
    lines = [_json({"answer": text})] if text and not message.tool_calls else []
    return "\n".join([*lines, *(_json({"tool": it["name"], "arguments": it["args"]}) for it in message.tool_calls)])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class OutputParser:
    """Parses the output of a model incrementally."""

    def __init__(self) -> None:
        self._output = ""
        self._position: int | None = None
        """The end of the parsed text of the answer. None: no answer has started."""

    def feed(self, piece: str) -> str:
        """The new text of the answer in this piece of output."""
        self._output += piece
        if self._position is None:
            start = _ANSWER_START.match(self._output)
            if start is None:
                return ""
            self._position = start.end()
        found = _STRING_CHARACTERS.match(self._output, self._position)
        characters = _HIGH_SURROGATE.sub("", found[0]) if found else ""
        self._position += len(characters)
        return str(json.loads(f'"{characters}"', strict=False))

    def tool_call(self) -> tuple[str, str] | None:
        """The name of the tool and the text of its arguments, which may be cut off; None if the output is an answer."""
        start = _CALL_START.match(self._output)
        if start is None:
            return None
        try:
            arguments = _json(json.loads(self._output)["arguments"])
        except ValueError:
            arguments = self._output[start.end() :]
        return str(json.loads(start[1])), arguments
