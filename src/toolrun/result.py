"""The one shape of an answer, and its renderings. Pure: knows values, nothing of tools or of how they are run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from toolrun.errors import ErrorKind, SideEffects
from toolrun.json import INT64, JSON, dumps_leniently, loads
from toolrun.worker.normalise import clean, step, walk

if TYPE_CHECKING:
    from toolrun.schema import Repair

_CONTENT_TYPES: Final = frozenset({"text", "image", "image_url", "audio", "resource", "resource_link", "file"})
_CONTENT_KEYS: Final = frozenset(
    {"text", "data", "base64", "source", "resource", "uri", "url", "image_url", "file", "file_id", "mimeType"}
)
"""What a content block holds its content in: a list of `{"type": "file", "name": …}` is data."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model asks for."""

    id: str
    name: str
    arguments: Mapping[str, JSON] | str | None = None


@dataclass(slots=True)
class Content:
    """What a tool returns when a model and a program are to get different things."""

    blocks: list[dict[str, JSON]]
    """For a model, in the form of MCP: `{"type": "text", "text": …}`, `{"type": "image", "data": …, "mimeType": …}`."""
    data: JSON = None
    """For a program. None: the text of the blocks, or the blocks themselves if there is more than text."""
    is_normal: bool = field(default=False, repr=False, compare=False)
    """Whether all of it is JSON data in the form of MCP that nobody else holds, so that it need not be copied."""


@dataclass(slots=True)
class ToolResult:
    """The answer to one call. `error` is None exactly when the call succeeded.

    A value, although not frozen: making a frozen one takes a third of the time of a whole call.
    """

    tool_name: str
    result: JSON = None
    error: str | None = None
    error_kind: ErrorKind | None = None
    execution_time_ms: float = 0.0
    call_id: str = ""
    """The id that the caller gave the call."""
    max_chars: int | None = field(default=None, repr=False, compare=False)
    """How long `text` may get."""
    repairs: tuple[Repair, ...] = ()
    """What was changed in the arguments before the tool got them."""
    side_effects: SideEffects | None = None
    """Of a failed call: whether the tool may have acted."""
    detail: str = field(default="", repr=False)
    """Of a failed call: further lines that only the model reads."""
    content: tuple[dict[str, JSON], ...] = field(default=(), repr=False)
    """The blocks for a model, if the tool returned any: text, images, audio, resources."""

    @property
    def success(self) -> bool:
        return self.error is None

    def to_dict(self) -> dict[str, JSON]:
        """The envelope, with exactly the keys that the specification names."""
        outcome: dict[str, JSON] = {"success": True, "result": self.result}
        if self.error is not None:
            outcome = {"success": False, "error": self.error}
        return {**outcome, "tool_name": self.tool_name, "execution_time_ms": round(self.execution_time_ms, 3)}

    @property
    def text(self) -> str:
        """What a model reads."""
        if self.error is None:
            return shorten(render(list(self.content) or self.result), self.max_chars)
        head = f'Unknown tool "{self.tool_name}"' if self.error_kind is ErrorKind.UNKNOWN_TOOL else self.error
        return shorten(f"Error: {head}\n{self.detail}" if self.detail else f"Error: {head}", self.max_chars)


def render(value: JSON) -> str:
    """A normalised value as text: strings as they are, content blocks by their text, the rest as JSON."""
    if isinstance(value, str):
        return value or "(no output)"
    if value is None:
        return "(no output)"
    if isinstance(value, list) and is_content(value):
        return "\n".join(map(_render_block, value)) or "(no output)"
    return _dumps(value).decode()


def is_content(values: list[JSON]) -> bool:
    """Whether a list is one of content blocks, as MCP and LangChain tools return them."""
    return bool(values) and all(map(_is_block, values))


def _is_block(value: JSON) -> bool:
    if not isinstance(value, dict) or _CONTENT_KEYS.isdisjoint(value):
        return False
    kind = value.get("type")
    return isinstance(kind, str) and kind in _CONTENT_TYPES


def _render_block(block: object) -> str:
    assert isinstance(block, dict)
    text = block.get("text")
    if isinstance(text, str):
        return text
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return cast(str, resource["text"])
    source = resource if isinstance(resource, dict) else block
    about = source.get("mimeType") or source.get("mime_type") or source.get("uri") or ""
    return f"[{block.get('type')} {about}".rstrip() + ", not shown as text]"


def shorten(text: str, limit: int | None) -> str:
    """Head and tail of a text that is too long, around a line that says how much is missing."""
    if limit is None or len(text) <= limit:
        return text
    tail = limit // 4
    head = limit - tail
    gap = f"\n… [{len(text) - limit:,} of {len(text):,} characters left out] …\n"
    return f"{text[:head]}{gap}{text[len(text) - tail :]}"


def normalise_result(value: object) -> tuple[JSON, tuple[dict[str, JSON], ...]]:
    """Whatever a tool returned, as data for a program, and as blocks for a model if it returned content."""
    if type(value) is Content:
        if value.is_normal:
            return _data(value.blocks) if value.data is None else value.data, tuple(value.blocks)
        blocks = normalise(value.blocks)
        data = normalise(value.data) if value.data is not None else _data(cast(list[dict[str, JSON]], blocks))
    else:
        blocks = data = normalise(value)
        if type(value) is not list:
            return data, ()
    is_blocks = isinstance(blocks, list) and is_content(blocks)
    return data, tuple(cast(list[dict[str, JSON]], blocks)) if is_blocks else ()


def normalise(value: object) -> JSON:
    """Whatever a tool returned, as JSON data that shares nothing with it. Never raises."""
    kind = type(value)
    if kind is int:
        number = cast(int, value)
        return number if -INT64 <= number < INT64 else cast(JSON, walk(number))
    if value is None or kind is bool:
        return cast(JSON, value)
    if kind is str:
        return clean(cast(str, value))
    if kind is float:
        return cast(float, value) if math.isfinite(cast(float, value)) else None
    if kind is Content:
        return normalise_result(value)[0]
    try:
        return cast(JSON, loads(dumps_leniently(value, step)))
    except (TypeError, ValueError, RecursionError):
        # Integers beyond 64 bits, lone surrogates, cycles: rare enough for a walk in Python.
        return cast(JSON, walk(value))


def _data(blocks: list[dict[str, JSON]]) -> JSON:
    """What a program gets of content that has no data of its own."""
    texts = [block["text"] for block in blocks if block.get("type") == "text" and "text" in block]
    if len(texts) < len(blocks):
        return cast(JSON, blocks)
    return "\n".join(map(str, texts))


def _dumps(value: JSON) -> bytes:
    try:
        return dumps_leniently(value, step)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
