"""Converts results of MCP servers to content of toolrun, and results of toolrun to MCP. Pure: JSON in, values out.

A server may get its own answer wrong. A block that cannot be read becomes a line of text that says so, because the tool
has acted and a model needs the rest; the block itself stays in the `_meta` of that text, for a gateway that passes it
on. An answer that is not a result at all is a `ProtocolError`.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Final, NoReturn, cast

from toolrun.errors import (
    CallError,
    ErrorKind,
    InvalidArgumentsError,
    ProtocolError,
    SideEffects,
    ToolError,
    UnknownToolError,
)
from toolrun.execution.failure import ForeignError
from toolrun.json import JSON
from toolrun.result import Content, ToolResult, normalise, render, shorten
from toolrun.text import show

Block = dict[str, JSON]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri",),
}
"""The types of blocks, each with the keys that must hold text. A `resource` has them one level deeper."""
_DATA_URL: Final = re.compile(r"data:(?P<mime>[^;,]*)[^,]*;base64,(?P<data>.*)", re.DOTALL)
_MAX_SHOWN: Final = 2_000
_ORIGINAL: Final = "toolrun/original"
"""In the `_meta` of a text: the block that it stands for."""
_PIECE: Final = 1_000_000
"""Characters of base64 that are checked in one call: a multiple of 4."""


class ForwardedError(Exception):
    """The JSON-RPC error of another server, for whoever passes it on."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def read_result(raw: Mapping[str, object], is_normal: bool = False) -> Content:
    """The content of a result of `tools/call`. Raises ForeignError if it says `isError`, ProtocolError if it is none.

    `isError` is no proof that nothing happened: most servers make it of any exception. `is_normal` says that all of it
    is JSON data and nobody else's.
    """
    kind = raw.get("resultType", "complete") if isinstance(raw, Mapping) else "complete"
    if kind == "input_required":
        _refuse_questions(raw)
    if not isinstance(raw, Mapping) or kind != "complete":
        raise ProtocolError(f"The server answered with something that is not the result of a tool: {show(raw)}")
    data = cast(JSON, raw.get("structuredContent"))
    listed = raw.get("content", [] if data is not None else None)
    if not isinstance(listed, list):
        raise ProtocolError(f"The server answered without a list of content: {show(raw)}")
    blocks: list[Block] = []
    for block in listed:
        match block:
            case {"type": "text", "text": str()}:  # most of them, and there is nothing more to look at
                blocks.append(block)
            case _:
                blocks.append(_read_block(block))
    meta = raw.get("_meta")
    content = Content(blocks, data, cast("dict[str, JSON]", meta) if isinstance(meta, dict) else None, is_normal)
    if raw.get("isError") is True:
        text = render(cast(JSON, blocks)) if blocks else "" if data is None else render(data)
        error = ForeignError(text or "The tool failed without saying why")
        error.answer = content
        raise error
    return content


def _refuse_questions(raw: Mapping[str, object]) -> NoReturn:
    """Raises ToolError with what the server asks of its user."""
    requests = raw.get("inputRequests")
    asked = []
    for request in requests.values() if isinstance(requests, Mapping) else ():
        parameters = request.get("params") if isinstance(request, Mapping) else None
        message = parameters.get("message") if isinstance(parameters, Mapping) else None
        asked.append(message if isinstance(message, str) else show(request))
    raise ToolError(
        "The server asks for input before it goes on, which toolrun cannot provide",
        detail="\n".join(asked)[:_MAX_SHOWN],
    )


def _read_block(block: object) -> Block:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return _instead(f"[not a block of content: {show(block)}]", block)
    if kind == "resource":
        fault = _resource_fault(block.get("resource"))
    elif kind in _TEXTS:
        fault = next((f"no '{key}'" for key in _TEXTS[kind] if not isinstance(block.get(key), str)), "")
        fault = fault or _data_fault(block.get("data"))
    else:
        return _instead(f"[{kind}, an unknown type of content: {show(block, _MAX_SHOWN)}]", block)
    return _instead(f"[{kind}, not usable: {fault}]", block) if fault else block


def _instead(text: str, block: object) -> Block:
    return {**_text(text), "_meta": {_ORIGINAL: cast(JSON, block)}}


def _original(block: Block) -> JSON:
    meta = block.get("_meta")
    return meta[_ORIGINAL] if isinstance(meta, dict) and _ORIGINAL in meta else block


def _resource_fault(resource: object) -> str:
    if not isinstance(resource, dict) or not isinstance(resource.get("uri"), str):
        return "no 'uri'"
    if isinstance(resource.get("text"), str):
        return ""
    blob = resource.get("blob")
    return _data_fault(blob) if isinstance(blob, str) else "neither 'text' nor 'blob'"


def _data_fault(data: object) -> str:
    """Providers reject a whole conversation for one image that is not base64."""
    if not isinstance(data, str):
        return ""
    try:
        if data.find("=", 0, len(data) - 2) >= 0 and len(data) > _PIECE:
            return "its data is not base64 (Excess data after padding)"
        for at in range(0, len(data), _PIECE):
            binascii.a2b_base64(data[at : at + _PIECE], strict_mode=True)
    except ValueError as error:  # also text that is not ASCII
        return f"its data is not base64 ({error})"
    return ""


def protocol_failure(code: int, message: str, data: object, tool: str) -> CallError:
    """A JSON-RPC error as the failure of the call. The message is the server's, unchanged.

    Its code and data are in the `_meta` of the answer.
    """
    failure = _protocol_failure(code, message, data, tool)
    about: dict[str, JSON] = {"toolrun/errorCode": code}
    if data is not None:
        about["toolrun/errorData"] = cast(JSON, data)
    failure.answer = Content([], None, about)
    return failure


def _protocol_failure(code: int, message: str, data: object, tool: str) -> CallError:
    text = message or f"The server of '{tool}' answered with error {code} and no message"
    detail = "" if data is None else data if isinstance(data, str) else show(data, _MAX_SHOWN)
    detail = shorten(detail, _MAX_SHOWN)
    if code == INVALID_PARAMS:  # also how many servers say that they do not know the tool
        return InvalidArgumentsError(text, detail=detail)
    if code == METHOD_NOT_FOUND:
        return UnknownToolError(text, detail="\n".join(filter(None, (text, detail))))
    if code in (PARSE_ERROR, INVALID_REQUEST):
        return ProtocolError(text, side_effects=SideEffects.NOT_STARTED, detail=detail)
    return ForeignError(text, detail=detail)


def write_result(result: ToolResult, has_output_schema: bool) -> dict[str, JSON]:
    """The answer to a call as a `CallToolResult`, whole: the limit for models is not one for programs.

    Structured content is an object, as the older protocol demands. It is sent if the tool promises it, or has blocks
    that say something else; otherwise the text is the same object already.
    """
    if result.error is not None:
        return _write_failure(result)
    shown = result.shown
    content: list[JSON] = [_write_block(block) for block in result.content]
    if not content:
        content.append({"type": "text", "text": render(shown)})
    if result.dropped or result.edited is not None:  # as `has_note`, which would cost each answer a call
        content.append(_note(result))
    answer: dict[str, JSON] = {"content": content, "isError": False}
    if isinstance(shown, dict) and (has_output_schema or result.content):
        answer["structuredContent"] = shown
    return _with_meta(answer, result)


def forward_result(result: ToolResult, is_modern: bool) -> dict[str, JSON]:
    """The answer to a call of another server's tool, as that server gave it, also if it says that the tool failed.

    Whether it is what the tool's output schema promises is for the client to judge, who has that schema.
    """
    is_own = bool(result.content) or result.result is not None or (result.meta is not None and not _is_rpc(result))
    if result.error is not None and not (is_own and result.error_kind in (ErrorKind.TOOL_ERROR, ErrorKind.PROTOCOL)):
        return _write_failure(result)
    notes = [] if result.edited is None else [_note(result)]  # the one thing that the server cannot know
    answer: dict[str, JSON] = {
        "content": [*(_original(block) for block in result.content), *notes],
        "isError": result.error_kind is ErrorKind.TOOL_ERROR,
    }
    if isinstance(result.shown, dict) or (is_modern and not _is_derived(result)):
        answer["structuredContent"] = result.shown
    return _with_meta(answer, result)


def _is_rpc(result: ToolResult) -> bool:
    """Whether the failure is a JSON-RPC error of the server."""
    return result.meta is not None and "toolrun/errorCode" in result.meta


def _with_meta(answer: dict[str, JSON], result: ToolResult) -> dict[str, JSON]:
    """With what the server said about its answer, and what toolrun has to say about the call."""
    about: dict[str, JSON] = {}
    if result.repairs:
        about["toolrun/repairs"] = normalise(result.repairs)
    if result.dropped:
        about["toolrun/dropped"] = list(result.dropped)
    if result.edited is not None:
        about["toolrun/edited"] = result.edited
    if result.record is not None and result.key is not None:
        about["toolrun/key"] = result.key
    if result.replayed:
        about |= _about_record(result)
    if about:
        return {**answer, "_meta": {**(result.meta or {}), **about}}
    return answer if result.meta is None else {**answer, "_meta": result.meta}


def _about_record(result: ToolResult) -> dict[str, JSON]:
    about: dict[str, JSON] = {"toolrun/replayed": True} if result.replayed else {}
    return about if result.record is None else {**about, "toolrun/recordedAs": result.recorded_as}


def too_large(tool: str, size: int, limit: int) -> dict[str, JSON]:
    """In place of an answer that is larger than the limit, in bytes."""
    text = (
        f"'{tool}' has run, but its answer cannot be sent: it has {size:,} bytes, and this server sends {limit:,} at "
        "most. Ask for less, or raise [serve] max_result_mb."
    )
    meta: dict[str, JSON] = {
        "toolrun/errorKind": str(ErrorKind.PROTOCOL),
        "toolrun/sideEffects": str(SideEffects.UNKNOWN),
    }
    return {"content": [_text(text)], "isError": True, "_meta": meta}


def _write_failure(result: ToolResult) -> dict[str, JSON]:
    text = f"{result.error}\n{result.detail}" if result.detail else str(result.error)
    meta: dict[str, JSON] = {"toolrun/errorKind": str(result.error_kind)}
    if result.side_effects is not None:
        meta["toolrun/sideEffects"] = str(result.side_effects)
    if result.edited is not None:
        meta["toolrun/edited"] = result.edited
    meta |= {**(result.meta or {}), **_about_record(result)}
    content: list[JSON] = [_text(text), _note(result)] if result.has_note else [_text(text)]
    return {"content": content, "isError": True, "_meta": meta}


def _note(result: ToolResult) -> Block:
    """In a block of its own: a client may read the result as JSON."""
    return _text(result.note)


def _is_derived(result: ToolResult) -> bool:
    """Whether a result without structured content got its data from its blocks, or has none."""
    data, blocks = result.shown, result.content
    if isinstance(data, str):
        return data == "\n".join(str(block.get("text")) for block in blocks)
    return data is None or (isinstance(data, list) and len(data) == len(blocks) and data == list(blocks))


def _write_block(block: Block) -> Block:
    """A block in the form of MCP. LangChain, Anthropic and OpenAI each have another for images, audio and files."""
    kind, text = block.get("type"), block.get("text")
    if kind == "text" or (kind == "file" and isinstance(text, str)):
        return {**_kept(block), **_text(str(text))}
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        return {"name": block["uri"], **block}
    if kind == "resource" and not _resource_fault(block.get("resource")):
        return block
    data, mime, url = _media(block)
    about: Block = {"mimeType": mime} if mime else {}
    if data and kind in ("image", "image_url"):
        return {**_kept(block), "type": "image", "data": data, "mimeType": mime or "image/png"}
    if data and kind == "audio":
        return {**_kept(block), "type": "audio", "data": data, "mimeType": mime or "audio/wav"}
    if data:
        return {"type": "resource", "resource": {"uri": f"attachment:{_name(block) or 'file'}", "blob": data, **about}}
    if url:
        return {"type": "resource_link", "uri": url, "name": _name(block) or url, **about}
    return _text(render([block]))


def _media(block: Block) -> tuple[str, str, str]:
    """Base64 data, its MIME type, and the URL of media that are elsewhere; each may be empty."""
    inner = next(
        (block[key] for key in ("source", "image_url", "file") if isinstance(block.get(key), dict | str)), None
    )
    source = inner if isinstance(inner, dict) else {"url": inner} if isinstance(inner, str) else block

    def first(*keys: str) -> str:
        return next((value for key in keys if isinstance(value := source.get(key), str)), "")

    data, mime, url = first("data", "base64", "file_data"), first("mimeType", "mime_type", "media_type"), first("url")
    if match := _DATA_URL.fullmatch(data or url):
        return match["data"], match["mime"] or mime, ""
    return data, mime, url


def _name(block: Block) -> str:
    file = block.get("file")
    found = (file if isinstance(file, dict) else block).get("filename") or block.get("name")
    return found if isinstance(found, str) else ""


def _kept(block: Block) -> Block:
    return {key: block[key] for key in ("annotations", "_meta") if isinstance(block.get(key), dict)}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
