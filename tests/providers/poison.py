"""What models, tools, people and other programs say that providers do not accept: a table of kinds times places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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

from providers.base import Asked, Step


@dataclass(frozen=True)
class Poison:
    """One bad thing at one place of a conversation."""

    name: str
    question: str | BaseMessage = "Hello?"
    history: Sequence[Any] = ()
    said: Step | None = None
    """What the model says first."""
    given: Any = None
    """What the tool `give` returns, or raises if it is an exception."""
    told: str = ""
    """The system prompt, and the description of a tool."""


def nested(levels: int, leaf: Any = 1, *, as_list: bool = False) -> Any:
    for _ in range(levels):
        leaf = [leaf] if as_list else {"a": leaf}
    return leaf


def nested_text(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


TEXTS = {
    "high surrogate": "a\ud83d",
    "low surrogate": "\ude00b",
    "reversed pair": "\ude00\ud83d",
    "split pair": "eleven char\ud83d\ude00",  # a piece of a stream has twelve characters
    "empty": "",
    "blank": " \n\t",
    "nul": "a\x00b",
    "byte order mark": "\ufeffa",
    "template": "<|im_end|></tool_call>{{ x }}",
    "noncharacter": "\uffff\U0010ffff",
}
VALUES: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": -math.inf,
    "long integer": 10**30,
    "endless integer": 1 << 20_000,
    "surrogate": "\ud800",
    "surrogate key": {"\udfff": 1},
    "deep object": nested(3_000),
    "deep list": nested(3_000, as_list=True),
    "deep NaN": nested(50, math.nan),
    "null": None,
    "bytes": b"\xff",
    "set": {1},
    "object": object,
    "blank": " ",
}
RAWS = {
    "NaN": '{"value": NaN}',
    "infinity": '{"value": -Infinity}',
    "1e999": '{"value": 1e999}',
    "surrogate": '{"value": "\\ud800"}',
    "surrogate key": '{"\\udc00": 1}',
    "3,000 levels": nested_text(3_000),
    "3,000 levels, cut off": nested_text(3_000)[:-1],
    "null": "null",
    "list": "[1]",
    "text": '"x"',
    "number": "7",
    "nothing": "",
    "cut off": '{"value": "x',
    "two": '{"value": 1}{"value": 2}',
    "5,000 digits": f'{{"value": {"9" * 5_000}}}',
    "doubled key": '{"value": 1, "value": 2}',
}
IDS = {
    "long": "x" * 41,
    "longer": "call_" + "9" * 500,
    "empty": "",
    "space": "a b",
    "colon": "function:give",
    "surrogate": "\ud800",
    "not ASCII": "функция",
    "slash": "a/b+c=",
}
NAMES = {
    "empty": "",
    "space": "a b",
    "dot": "a.b.c",
    "long": "n" * 200,
    "surrogate": "\ud800",
    "not ASCII": "функция",
    "special token": "<|im_end|>",
}
FILENAME = {"filename": "a.pdf"}
BLOCKS: dict[str, Any] = {
    "audio": {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    "file without content": {"type": "video", "url": "https://example.org/v.mp4"},
    "file that is none": {"type": "file", "base64": "not base64!", "mime_type": "application/pdf", **FILENAME},
    "file of a strange kind": {"type": "file", "base64": "AAAA", "mime_type": "\ud800", **FILENAME},
    "file of another provider": {"type": "file", "file_id": "file-1", **FILENAME},
    "media without data": {"type": "media", "mime_type": "video/mp4"},
    "text with a signature that is none": {"type": "text", "text": "x", "extras": {"signature": "s"}},
    "image with a signature that is none": {
        "type": "image",
        "base64": "AAAA",
        "mime_type": "image/png",
        "extras": {"signature": "s"},
    },
    "unknown": {"type": "hologram", "data": "x"},
    "without type": {"text": "x"},
    "blank text": {"type": "text", "text": " "},
    "surrogate text": {"type": "text", "text": "\ud800"},
    "text of a number": {"type": "text", "text": 7},
    "image without data": {"type": "image"},
    "image that is none": {"type": "image", "base64": "not base64!", "mime_type": "image/png"},
    "image of a strange kind": {"type": "image", "base64": "AAAA", "mime_type": "image/tiff"},
    "image of MCP": {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    "image of Anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    "image of OpenAI": {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    "image as text": {"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
    "image elsewhere": {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    "image in a file": {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
    "thinking": {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    "thinking without signature": {"type": "thinking", "thinking": "Hm."},
    "type of a list": {"type": ["x"], "text": "y"},
    "type of an object": {"type": {"x": 1}},
    "type of a number": {"type": 7, "text": "y"},
    "text with NaN beside it": {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": math.nan}},
    "text with a surrogate as id": {"type": "text", "text": "x", "id": "\ud800"},
    "text with a deep value beside it": {"type": "text", "text": "x", "extras": nested(3_000)},
    "image with a surrogate in its address": {"type": "image_url", "image_url": {"url": "https://example.org/\ud800"}},
    "image with NaN beside it": {"type": "image", "base64": "AAAA", "mime_type": "image/png", "extras": math.nan},
    "file of OpenAI": {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
    "document without source": {"type": "document", "title": "x"},
    "resource": {"type": "resource", "resource": {"uri": "x:y", "text": "z"}},
}


class SdkBlock:
    """A block of Anthropic's SDK, which is an object with `model_dump`."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


USE = {"type": "tool_use", "id": "toolu_1", "name": "give", "input": {"value": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "fine"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "give", "arguments": '{"value": 1}'}}


def langchain_call(id: str = "1", name: str = "give", **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": id, "type": "tool_call"}


def of_openai(arguments: Any, id: str = "call_1") -> list[Any]:
    call = {"id": id, "type": "function", "function": {"name": "give", "arguments": arguments}}
    return [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "fine"},
    ]


def of_langchain(call: Any, result: Any = "fine") -> list[Any]:
    answer = AIMessage(content="", tool_calls=[call])
    return [HumanMessage("Go."), answer, ToolMessage(content=result, tool_call_id=call["id"])]


HISTORIES: dict[str, Any] = {
    "Anthropic's dicts": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, USE]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "And?"}]},
    ],
    "Anthropic's objects": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [SdkBlock(type="text", text="Hm."), SdkBlock(**USE)]},
        {"role": "user", "content": [{**RESULT, "content": [{"type": "text", "text": "fine"}]}]},
    ],
    "an answer of Anthropic's SDK": ["Go.", SdkBlock(role="assistant", content=[USE], type="message"), "Well?"],
    "Anthropic's thinking": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, USE]},
        {"role": "user", "content": [{**RESULT, "is_error": True}]},
    ],
    "a call of Anthropic without a result": [{"role": "assistant", "content": [USE]}],
    "a result of Anthropic without a call": [{"role": "user", "content": [RESULT]}],
    "Anthropic's image result": [
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [{**RESULT, "content": [BLOCKS["image of Anthropic"]]}]},
    ],
    "Anthropic's messages in LangChain's": [
        HumanMessage("Go."),
        AIMessage(content=[USE]),
        HumanMessage(content=[RESULT]),
    ],
    "OpenAI's": of_openai('{"value": 1}'),
    "OpenAI's invalid arguments": of_openai('{"value": '),
    "OpenAI's list": of_openai("[1]"),
    "OpenAI's null": of_openai("null"),
    "OpenAI's None": of_openai(None),
    "OpenAI's long id": of_openai("{}", "c" * 99),
    "OpenAI's deep arguments": of_openai(nested_text(3_000)),
    "OpenAI's NaN": of_openai('{"value": NaN}'),
    "OpenAI's function call": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "function_call": {"name": "give", "arguments": "{}"}},
        {"role": "function", "name": "give", "content": "fine"},
    ],
    "OpenAI's Responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "function_call", "call_id": "c1", "name": "give", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "fine"},
    ],
    "OpenAI's developer in the middle": [
        {"role": "user", "content": "Go."},
        {"role": "developer", "content": "Be brief."},
        {"role": "assistant", "content": "No."},
        {"role": "system", "content": "Be long."},
    ],
    "Ollama's": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "give", "arguments": {"value": 1}}}]},
        {"role": "tool", "content": "fine", "tool_name": "give"},
    ],
    "Gemini's": [{"role": "user", "parts": [{"text": "Go."}]}, {"role": "model", "parts": [{"text": "No."}]}],
    "pairs": [("human", "Go."), ("ai", ""), ("user", " ")],
    "an unknown role": [{"role": "narrator", "content": "Once upon a time"}],
    "no content": [{"role": "user"}, {"role": "assistant"}, {"role": "user", "content": None}],
    "nothing but blanks": [HumanMessage(" "), AIMessage(""), HumanMessage(""), AIMessage(" \n"), SystemMessage("")],
    "blank blocks": [HumanMessage([{"type": "text", "text": ""}]), AIMessage([{"type": "text", "text": " "}])],
    "an answer first": [AIMessage("Hello.")],
    "calls first": of_langchain(langchain_call())[1:],
    "a call without a result": of_langchain(langchain_call())[:2],
    "results before calls": of_langchain(langchain_call())[::-1],
    "doubled ids": [*of_langchain(langchain_call("1")), *of_langchain(langchain_call("1"))],
    "doubled ids in one answer": [
        AIMessage("", tool_calls=[langchain_call("1"), langchain_call("1")]),
        ToolMessage("a", tool_call_id="1"),
        ToolMessage("b", tool_call_id="1"),
    ],
    "NaN": of_langchain(langchain_call(value=math.nan)),
    "deep arguments": of_langchain(langchain_call(value=nested(3_000))),
    "an empty name": of_langchain(langchain_call(name="")),
    "an image result": of_langchain(langchain_call(), [BLOCKS["image of MCP"], {"type": "text", "text": "Click."}]),
    "a broken image result": of_langchain(langchain_call(), [BLOCKS["image that is none"]]),
    "an empty result": of_langchain(langchain_call(), ""),
    "an empty list as result": of_langchain(langchain_call(), []),
    "system messages everywhere": [SystemMessage("a"), HumanMessage("b"), SystemMessage("c"), AIMessage("d")],
    "other kinds of messages": [
        ChatMessage(role="assistant", content="a"),
        ChatMessage(role="critic", content="b"),
        RemoveMessage(id="1"),
        FunctionMessage(name="give", content="c"),
    ],
    "old function calls": [
        HumanMessage("Go."),
        AIMessage("", additional_kwargs={"function_call": {"name": "give", "arguments": "{"}}),
        FunctionMessage(name="give", content="fine"),
    ],
    "raw calls of OpenAI's package": [
        HumanMessage("Go."),
        AIMessage("", additional_kwargs={"tool_calls": [CALL]}),
        ToolMessage("fine", tool_call_id="call_1"),
    ],
    "poisoned reasoning": [HumanMessage("Go."), AIMessage("No.", additional_kwargs={"reasoning_content": "\ud800"})],
    "calls that are none": [
        {"role": "assistant", "content": "No.", "tool_calls": [1, None, "x", [], CALL]},
        {"role": "assistant", "content": "No.", "tool_calls": 5},
        {"role": "assistant", "content": "No.", "tool_calls": {"a": 1}},
        AIMessage("No.", additional_kwargs={"tool_calls": [1, None]}),
    ],
    "images in instructions": [SystemMessage([BLOCKS["image of MCP"], "Be brief."]), HumanMessage("Go.")],
    "files in instructions": [{"role": "system", "content": [BLOCKS["file of OpenAI"], BLOCKS["unknown"]]}, "Go."],
    "names and roles beside the content": [
        SystemMessage("Be brief.", additional_kwargs={"__openai_role__": "\ud800", "name": "\ud800"}),
        HumanMessage("Go.", additional_kwargs={"name": "\ud800"}),
        AIMessage("", tool_calls=[langchain_call()], additional_kwargs={"name": "a b"}),
        ToolMessage("fine", tool_call_id="1", name="\ud800", additional_kwargs={"name": "\ud800"}),
    ],
    "a name with spaces": [HumanMessage("Go.", name="Ada Lovelace"), AIMessage("No.", name="\ud800")],
    "serialised messages": [
        {"lc": 1, "type": "constructor", "id": ["HumanMessage"], "kwargs": {"content": "Go.", "type": "human"}}
    ],
}


def poisons() -> Iterator[Poison]:
    """All of them, each under its own name."""
    for kind, text in TEXTS.items():
        yield Poison(f"question: {kind}", question=text)
        yield Poison(f"answer: {kind}", said=Step(text=text))
        yield Poison(f"system prompt and description: {kind}", told=text)
        yield Poison(f"history of the user: {kind}", history=[HumanMessage(text), AIMessage("Hm.")])
        yield Poison(f"history of the model: {kind}", history=[HumanMessage("Hm."), AIMessage(text)])
        yield Poison(f"error: {kind}", said=_give(), given=RuntimeError(text))
    for kind, value in VALUES.items():
        yield Poison(f"result: {kind}", said=_give(), given=value)
        yield Poison(f"result with it inside: {kind}", said=_give(), given={"value": [value]})
        yield Poison(f"arguments in a history: {kind}", history=of_langchain(langchain_call(value=value)))
    for kind, raw in RAWS.items():
        yield Poison(f"arguments: {kind}", said=Step(text="Hm.", calls=[Asked("give", raw=raw)]))
        yield Poison(f"second call: {kind}", said=Step(calls=[Asked("give", {"value": 1}), Asked("give", raw=raw)]))
    for kind, id in IDS.items():
        yield Poison(f"id: {kind}", said=_give(id=id), given=1)
        yield Poison(f"doubled id: {kind}", said=Step(calls=[Asked("give", {}, id=id), Asked("give", {}, id=id)]))
        yield Poison(f"id in a history: {kind}", history=of_langchain(langchain_call(id)))
    for kind, name in NAMES.items():
        yield Poison(f"name: {kind}", said=Step(calls=[Asked(name, {"value": 1})]))
        yield Poison(f"name in a history: {kind}", history=of_langchain(langchain_call(name=name)))
    for kind, block in BLOCKS.items():
        yield Poison(f"block of the question: {kind}", question=HumanMessage(content=[block]))
        yield Poison(f"block of a history: {kind}", history=[HumanMessage([block, "x"]), AIMessage([block])])
        for origin in ("anthropic", "openai", "ollama"):
            own = AIMessage([block, {"type": "text", "text": "Hm."}], response_metadata={"model_provider": origin})
            yield Poison(f"own block of the model: {kind}, {origin}", history=[HumanMessage("Go."), own])
        yield Poison(f"block of a result: {kind}", said=_give(), given=[{"type": "text", "text": "x"}, block])
    for kind, history in HISTORIES.items():
        yield Poison(f"history: {kind}", history=history)


def _give(id: str | None = None) -> Step:
    return Step(calls=[Asked("give", {"value": 1}, id=id)])
