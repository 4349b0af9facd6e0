"""Tool calls by constrained output, for models that know nothing of tools: what such a model is told, the JSON that it
may say, and what it said. Pure.

Because nothing else can be said, even the smallest model makes calls that are well-formed. Whether they make sense is
judged by the executor, with the whole schema.
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

_DEEPEST: Final = 6
"""Levels of a schema that are enforced; below, any JSON may be said."""
_ANSWER: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_CALL: Final = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_CHARACTERS: Final = re.compile(r'(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})+')
_FIRST_HALF: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
"""The first of two escapes that are one character together."""


class Function(NamedTuple):
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: Schema


def functions(tools: Sequence[Mapping[str, Any]]) -> list[Function]:
    """The tools of a request, which are in the form of OpenAI."""
    given = [tool["function"] for tool in tools]
    return [Function(it["name"], it.get("description", ""), it.get("parameters") or {}) for it in given]


def sayable(tools: Sequence[Function]) -> Schema:
    """The schema of all that may be said: a call of one of the tools, or an answer."""
    calls = [
        _object({"tool": {"const": tool.name}, "arguments": allowed(tool.parameters, tool.parameters)})
        for tool in tools
    ]
    return {"anyOf": [*calls, _object({"answer": {"type": "string"}})]}


def allowed(schema: JSON, root: Schema, depth: int = 0) -> Schema:
    """What is enforced of a schema while a model speaks: types, options and the names of properties."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    target = local_reference(root, schema.get("$ref"))
    if target:
        return allowed(target[1], root, depth + 1)
    if "const" in schema:
        return {"const": schema["const"]}
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return {"enum": options}
    parts = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(parts, list) and parts and "type" not in schema:
        return {"anyOf": [allowed(part, root, depth + 1) for part in parts]}
    kind = schema.get("type", "object" if "properties" in schema or depth == 0 else None)
    if isinstance(kind, list):
        return {"anyOf": [allowed({**schema, "type": one}, root, depth + 1) for one in kind]} if kind else {}
    return _of_type(kind, schema, root, depth)


def _of_type(kind: JSON, schema: Schema, root: Schema, depth: int) -> Schema:
    match kind:
        case "object":
            properties = schema.get("properties")
            if not isinstance(properties, dict) or (not properties and depth):
                return {"type": "object"}
            kept = {name: allowed(part, root, depth + 1) for name, part in properties.items()}
            required = schema.get("required")
            needed = [name for name in required if name in kept] if isinstance(required, list) else []
            return _object(kept, needed)
        case "array":
            return {"type": "array", "items": allowed(schema.get("items"), root, depth + 1)}
        case "integer":
            bounds = {key: schema[key] for key in ("minimum", "maximum") if isinstance(schema.get(key), int)}
            return {"type": "integer", **bounds}
        case "string" | "number" | "boolean" | "null":
            return {"type": kind}
    return {}


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> Schema:
    needed: list[JSON] = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def dialogue(messages: Sequence[BaseMessage], tools: Sequence[Function]) -> list[dict[str, str]]:
    """The conversation for a template that knows a system, a user and an assistant, who take turns."""
    system = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
    if tools:
        system.append(_instructions(tools))
    turns = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        role = "assistant" if isinstance(message, AIMessage) else "user"
        content = _said(message, has_tools=bool(tools))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += f"\n\n{content}"
        else:
            turns.append({"role": role, "content": content})
    return turns


def _instructions(tools: Sequence[Function]) -> str:
    lines = [f"{tool.name}: {' '.join(tool.description.split())}\n{describe(tool.parameters)}" for tool in tools]
    return _text() + "\n".join(lines)


@cache
def _text() -> str:
    return files("toolrun.clients.local").joinpath("constrained.txt").read_text(encoding="utf-8")


def _said(message: BaseMessage, *, has_tools: bool) -> str:
    text = str(message.text)
    if isinstance(message, ToolMessage):
        return f"Result of {message.name or 'the tool'}: {text}"
    if not isinstance(message, AIMessage) or not (has_tools or message.tool_calls):
        return text
    lines = [_json({"answer": text})] if text and not message.tool_calls else []
    return "\n".join([*lines, *(_json({"tool": it["name"], "arguments": it["args"]}) for it in message.tool_calls)])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class Reader:
    """Reads what a model says while it says it."""

    def __init__(self) -> None:
        self._said = ""
        self._position: int | None = None
        """How far the text of the answer is read. None: it has not begun, if this is one."""

    def feed(self, piece: str) -> str:
        """The new text of the answer in this piece."""
        self._said += piece
        if self._position is None:
            start = _ANSWER.match(self._said)
            if start is None:
                return ""
            self._position = start.end()
        found = _CHARACTERS.match(self._said, self._position)
        characters = _FIRST_HALF.sub("", found[0]) if found else ""
        self._position += len(characters)
        return str(json.loads(f'"{characters}"', strict=False))

    def call(self) -> tuple[str, str] | None:
        """The name of the called tool and the text of its arguments, which may be cut off; None for an answer."""
        start = _CALL.match(self._said)
        if start is None:
            return None
        try:
            arguments = _json(json.loads(self._said)["arguments"])
        except ValueError:
            arguments = self._said[start.end() :]
        return str(json.loads(start[1])), arguments
