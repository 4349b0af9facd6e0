"""The one shape of an answer, and its renderings. Pure: knows values, nothing of tools or of how they are run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from toolrun.errors import ErrorKind, SideEffects
from toolrun.json import INT64, JSON, dumps_leniently, loads
from toolrun.text import visible
from toolrun.worker.normalise import Walk, clean, step, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolrun.schema import Repair

_CONTENT_TYPES: Final = frozenset({"text", "image", "image_url", "audio", "resource", "resource_link", "file"})
_CONTENT_KEYS: Final = frozenset(
    {"text", "data", "base64", "source", "resource", "uri", "url", "image_url", "file", "file_id", "mimeType"}
)
"""What a content block holds its content in: a list of `{"type": "file", "name": …}` is data."""
_MAX_NAMES: Final = 10
_MAX_NAME: Final = 80
"""How many of the ignored arguments a model is told of, and the characters of each."""

_SMALL_VALUES: Final = 10_000
_SMALL_CHARS: Final = 500_000
"""What is converted in a few milliseconds."""
_PIECE: Final = 1000
"""Members of a large value that are converted in one call, if they are small."""
_ATOMS: Final = frozenset({type(None), bool, float})
_FOREIGN_ATOMS: Final = (("datetime", "datetime"), ("datetime", "date"), ("decimal", "Decimal"), ("uuid", "UUID"))
"""Types of the standard library that are written by its own code."""


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
    meta: dict[str, JSON] | None = None
    """What the server said about the answer (`_meta`), passed on as it is."""
    is_normal: bool = field(default=False, repr=False, compare=False)
    """Whether all of it is JSON data in the form of MCP that nobody else holds, so that it need not be copied."""
    artifact: object = field(default=None, repr=False)
    """For the program as it is, whatever it is. It is not sent anywhere."""


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
    meta: dict[str, JSON] | None = field(default=None, repr=False)
    """Of an MCP server's answer: its `_meta`, passed on as it is."""
    rendered: str | None = field(default=None, repr=False, compare=False)
    """Of a large result: `text`, made beforehand, because making it takes long."""
    dropped: tuple[str, ...] = ()
    """Arguments that the tool does not know: it did not get them."""
    artifact: object = field(default=None, repr=False, compare=False)
    """What a LangChain tool returned beside its content, as it is: no model, log or envelope shows it."""

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
        text = self.rendered
        if text is None and self.error is None:
            text = shorten(render(list(self.content) or self.result), self.max_chars)
        elif text is None:
            head = f'Unknown tool "{self.tool_name}"' if self.error_kind is ErrorKind.UNKNOWN_TOOL else self.error
            text = shorten(f"Error: {head}\n{self.detail}" if self.detail else f"Error: {head}", self.max_chars)
        return f"{text}\n{self.note}" if self.dropped else text

    @property
    def note(self) -> str:
        """What a model should know of how the call was read; mostly nothing."""
        if not self.dropped:
            return ""
        names = ", ".join(visible(name[:_MAX_NAME]) for name in self.dropped[:_MAX_NAMES])
        more = len(self.dropped) - _MAX_NAMES
        return f"Note: ignored unknown arguments: {names}" + (f" and {more} more" if more > 0 else "")


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
    return _around_gap(text, text, len(text), limit)


def _around_gap(begin: str, end: str, total: int, limit: int) -> str:
    tail = limit // 4
    gap = f"\n… [{total - limit:,} of {total:,} characters left out] …\n"
    return f"{begin[: limit - tail]}{gap}{end[len(end) - tail :]}"


def normalise_result(
    value: object, convert: Callable[[object], JSON] | None = None
) -> tuple[JSON, tuple[dict[str, JSON], ...]]:
    """Whatever a tool returned, as data for a program, and as blocks for a model if it returned content."""
    convert = convert or normalise
    if type(value) is Content:
        if value.is_normal:
            return _data(value.blocks) if value.data is None else value.data, tuple(value.blocks)
        blocks = convert(value.blocks)
        data = convert(value.data) if value.data is not None else _data(cast(list[dict[str, JSON]], blocks))
    else:
        blocks = data = convert(value)
        if type(value) is not list:
            return data, ()
    is_blocks = isinstance(blocks, list) and is_content(blocks)
    return data, tuple(cast(list[dict[str, JSON]], blocks)) if is_blocks else ()


def is_small(value: object) -> bool:
    """Whether `normalise` takes a few milliseconds at most: it is plain data, of which there is not much.

    A foreign object's own methods may take any time, so a value that holds one is not small.
    """
    kind = type(value)
    if kind is str:
        text = cast(str, value)
        return text.isascii() or len(text) <= _SMALL_CHARS
    values, chars = _SMALL_VALUES, _SMALL_CHARS
    stack: list[object] = [value]
    while stack:
        item: Any = stack.pop()
        kind = type(item)
        if kind is str or kind is bytes:
            chars -= len(item)
        elif kind is dict:
            values -= len(item)
            if values >= 0:
                chars -= sum([len(key) if type(key) is str else _SMALL_CHARS + 1 for key in item])
                stack += item.values()
        elif kind is list or kind is tuple:
            values -= len(item)
            if values >= 0:
                stack += item
        elif kind is int:
            chars -= item.bit_length() >> 8
        elif kind is Content:
            if not item.is_normal:
                stack += (item.blocks, item.data)
        elif kind not in _ATOMS and not _is_foreign_atom(kind):
            if not _is_plain_record(kind, item):
                return False
            stack.append(item.__dict__)
        if values < 0 or chars < 0:
            return False
    return True


def _is_foreign_atom(kind: type) -> bool:
    return any(getattr(sys.modules.get(module), name, None) is kind for module, name in _FOREIGN_ATOMS)


def _is_plain_record(kind: Any, value: Any) -> bool:
    """Whether a dataclass keeps its fields where they can be read without any code of its own."""
    fields = getattr(kind, "__dataclass_fields__", None)
    if type(fields) is not dict or kind.__getattribute__ is not object.__getattribute__:
        return False
    if any(isinstance(vars(it).get("__dict__"), property) for it in kind.__mro__):
        return False
    attributes = getattr(value, "__dict__", None)
    return type(attributes) is dict and attributes.keys() == fields.keys()


def meta_of(content: Content) -> dict[str, JSON] | None:
    """What a server said about its answer, as JSON data that shares nothing with it."""
    return cast("dict[str, JSON]", normalise(content.meta)) if content.meta is not None else None


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


def normalise_large(value: object) -> JSON:
    """`normalise` for values of any size: no call into C takes long, so that other threads can run meanwhile."""
    try:
        return cast(JSON, _Pieces().value(value, ()))
    except RuntimeError:  # the tool has a thread that changes what it returned: in one call nobody can
        return normalise(value)


class _Pieces(Walk):
    """Goes through what is large, and converts what is small in one call."""

    def value(self, value: Any, above: tuple[int, ...]) -> Any:
        return normalise(value) if is_small(value) else super().value(value, above)

    def members(self, members: dict[Any, Any], above: tuple[int, ...]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for piece in _cut(dict.items(members), _PIECE):
            part = dict(piece)
            whole |= cast(dict[str, Any], normalise(part)) if is_small(part) else super().members(part, above)
        return whole

    def items(self, items: Iterator[object], above: tuple[int, ...]) -> list[Any]:
        whole: list[Any] = []
        for piece in _cut(items, _PIECE):
            whole += cast(list[Any], normalise(piece)) if is_small(piece) else super().items(iter(piece), above)
        return whole


def _cut(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece


def render_large(value: JSON, limit: int | None) -> str:
    """`shorten(render(value), limit)` for values of any size, like `normalise_large`."""
    if isinstance(value, str) or is_small(value) or (isinstance(value, list) and is_content(value)):
        return shorten(render(value), limit)
    if limit is None:
        return "".join(_written(value))
    head, tail, total = "", "", 0
    for part in _written(value):  # never joined as a whole, which would be one long call
        total += len(part)
        head += part[: max(0, limit - len(head))]
        tail = (tail + part)[-limit:]
    return head if total <= limit else _around_gap(head, tail, total, limit)


def _written(value: JSON) -> Iterator[str]:
    if not isinstance(value, str) and is_small(value):
        yield _dumps(value).decode()
    elif isinstance(value, list):
        yield from _enclosed("[]", (it for piece in _cut(value, _PIECE) for it in _written_items(piece)))
    elif isinstance(value, dict):
        parts = (dict(piece) for piece in _cut(value.items(), _PIECE))
        yield from _enclosed("{}", (it for part in parts for it in _written_members(part)))
    elif isinstance(value, str):
        pieces = (value[at : at + _SMALL_CHARS] for at in range(0, len(value), _SMALL_CHARS))
        yield from ('"', *(_dumps(piece).decode()[1:-1] for piece in pieces), '"')
    else:
        yield _dumps(value).decode()


def _written_items(piece: list[JSON]) -> Iterator[str]:
    if is_small(piece):
        yield _dumps(piece).decode()[1:-1]
    else:
        yield from ("".join(_written(item)) for item in piece)


def _written_members(piece: dict[str, JSON]) -> Iterator[str]:
    if is_small(piece):
        yield _dumps(piece).decode()[1:-1]
    else:
        yield from (f"{_dumps(key).decode()}:{''.join(_written(item))}" for key, item in piece.items())


def _enclosed(ends: str, parts: Iterable[str]) -> Iterator[str]:
    yield ends[0]
    comma = ""
    for part in parts:
        yield comma + part
        comma = ","
    yield ends[1]


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
