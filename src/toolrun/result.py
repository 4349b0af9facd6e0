"""The one shape of an answer, and its renderings. Pure: knows values, nothing of tools or of how they are run."""

from __future__ import annotations

import json
import math
import sys
from abc import ABCMeta
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import GetSetDescriptorType
from typing import TYPE_CHECKING, Any, Final, cast

from toolrun.errors import ErrorKind, SideEffects
from toolrun.json import INT64, JSON, dumps_leniently, loads
from toolrun.text import visible
from toolrun.worker.normalise import clean, step, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolrun.schema import Repair

_CONTENT_TYPES: Final = frozenset({"text", "image", "image_url", "audio", "resource", "resource_link", "file"})
_CONTENT_KEYS: Final = frozenset(
    {"text", "data", "base64", "source", "resource", "uri", "url", "image_url", "file", "file_id", "mimeType"}
)
"""What a content block holds its content in: a list of `{"type": "file", "name": …}` is data."""
ID_BITS: Final = 32
"""Bits of the id of a recorded call that number it among those of its process."""
_MAX_NAMES: Final = 10
_MAX_NAME: Final = 80
"""How many of the ignored arguments a model is told of, and the characters of each."""
_MAX_EDITED: Final = 2_000
"""Characters of changed arguments that a model is told."""

_SMALL_VALUES: Final = 10_000
SMALL_CHARS: Final = 500_000
"""What is converted in a few milliseconds."""
_FOREIGN_ATOMS: Final = (("datetime", "datetime"), ("datetime", "date"), ("decimal", "Decimal"), ("uuid", "UUID"))
"""Types of the standard library that are written by its own code."""
_HOOKS: Final = frozenset({"__getattr__", "__getattribute__", "__class__"})
_DICT: Final = vars(type("Plain", (), {}))["__dict__"]
"""How Python itself answers for `__dict__`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model asks for, or a program that makes several calls at once."""

    id: str
    name: str
    arguments: Mapping[str, JSON] | str | None = None
    key: str | None = None
    """Says that this call is the same as any other with that key, as that of `execute`. The id does not say that."""


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
class Large:
    """A large result that is JSON data already, or content of it, and that nobody else holds: it need not be copied."""

    value: Content | JSON


@dataclass(slots=True)
class ToolResult:
    """The answer to one call. `error` is None exactly when the call succeeded.

    Secrets of the project are hidden in all of it but `result` and `artifact`, which are for the program that called.

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
    edited: JSON = None
    """The arguments that the tool got, if whoever approved the call changed them; else None."""
    replayed: bool = False
    """Whether this is the stored answer of the same call, which was made before."""
    executed: JSON = field(default=None, repr=False, compare=False)
    """The arguments that the tool got, if they are not the ones that were sent: renamed, repaired, read from text."""
    record: tuple[int, str | None] | None = field(default=None, repr=False, compare=False)
    """The number of the call in the journal, and the key that its caller gave: one field, since each costs time."""

    @property
    def success(self) -> bool:
        return self.error is None

    @property
    def shown(self) -> JSON:
        """`result` for anybody but the program that made the call: without secrets."""
        return self.result

    @property
    def recorded_as(self) -> str | None:
        """The id of the call in the journal, for `toolrun show`; that of the first call if the answer is replayed."""
        return None if self.record is None else show_id(self.record[0])

    @property
    def key(self) -> str | None:
        """The key under which the call was recorded."""
        return None if self.record is None else self.record[1]

    def to_dict(self, *, full: bool = False) -> dict[str, JSON]:
        """The envelope, with exactly the keys that the specification names; `full`: with all that a program may ask."""
        outcome: dict[str, JSON] = {"success": True, "result": self.shown}
        if self.error is not None:
            outcome = {"success": False, "error": self.error}
        envelope = {**outcome, "tool_name": self.tool_name, "execution_time_ms": round(self.execution_time_ms, 3)}
        if not full:
            return envelope
        return {
            **envelope,
            "error_kind": None if self.error_kind is None else self.error_kind.value,
            "side_effects": None if self.side_effects is None else self.side_effects.value,
            "repairs": normalise(self.repairs) if self.repairs else [],
            "dropped": list(self.dropped),
            "edited": self.edited,
            "call_id": self.call_id or self.recorded_as,
            "recorded_as": self.recorded_as,
            "key": self.key,
            "replayed": self.replayed,
        }

    @property
    def text(self) -> str:
        """What a model reads."""
        text = self.rendered
        if text is None and self.error is None:
            text = shorten(render(list(self.content) or self.shown), self.max_chars)
        elif text is None:
            head = f'Unknown tool "{self.tool_name}"' if self.error_kind is ErrorKind.UNKNOWN_TOOL else self.error
            text = shorten(f"Error: {head}\n{self.detail}" if self.detail else f"Error: {head}", self.max_chars)
        return f"{text}\n{self.note}" if self.has_note else text

    @property
    def has_note(self) -> bool:
        return bool(self.dropped) or self.edited is not None

    @property
    def note(self) -> str:
        """What a model should know of how the call was read; mostly nothing."""
        lines = []
        if self.edited is not None:
            ran = visible(shorten(render(self.edited), _MAX_EDITED))
            lines.append(f"Note: the person who approved this call changed its arguments to {ran}")
        if self.dropped:
            lines.append(self._ignored())
        return "\n".join(lines)

    def _ignored(self) -> str:
        names = ", ".join(visible(name[:_MAX_NAME]) for name in self.dropped[:_MAX_NAMES])
        more = len(self.dropped) - _MAX_NAMES
        return f"Note: ignored unknown arguments: {names}" + (f" and {more} more" if more > 0 else "")


class RedactedResult(ToolResult):
    """An answer in which the tool returned a secret. Its `result` is what the program asked for; all else hides it."""

    __slots__ = ("shown",)

    shown: JSON


def show_id(id: int) -> str:
    """`17-204`: the 204th call of process 17 that wrote to the journal."""
    return f"{id >> ID_BITS}-{id & (1 << ID_BITS) - 1}"


def render(value: JSON) -> str:
    """A normalised value as text: strings as they are, content blocks by their text, the rest as JSON."""
    if isinstance(value, str):
        return value or "(no output)"
    if value is None:
        return "(no output)"
    if type(value) is int:
        return str(value)
    if isinstance(value, list) and is_content(value):
        return "\n".join(map(_render_block, value)) or "(no output)"
    return dumps_rendered(value).decode()


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
    return around_gap(text, text, len(text), limit)


def around_gap(begin: str, end: str, total: int, limit: int) -> str:
    """`limit` characters of a text of `total`, from its beginning and its end."""
    tail = limit // 4
    gap = f"\n… [{total - limit:,} of {total:,} characters left out] …\n"
    return f"{begin[: limit - tail]}{gap}{end[len(end) - tail :]}"


def normalise_result(
    value: object, convert: Callable[[object], JSON] | None = None
) -> tuple[JSON, tuple[dict[str, JSON], ...]]:
    """Whatever a tool returned, as data for a program, and as blocks for a model if it returned content."""
    convert = convert or normalise
    if type(value) is Large:
        value, convert = value.value, _unchanged
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


def _unchanged(value: object) -> JSON:
    return cast(JSON, value)


def is_small(value: object) -> bool:
    """Whether `normalise` takes a few milliseconds at most: it is plain data, of which there is not much.

    A foreign object's own methods may take any time, so a value that holds one is not small.
    """
    kind = type(value)
    if kind is str:
        text = cast(str, value)
        return text.isascii() or len(text) <= SMALL_CHARS
    values, chars = _SMALL_VALUES, SMALL_CHARS
    stack: list[object] = [value]
    while stack:
        item: Any = stack.pop()
        kind = type(item)
        if kind is str or kind is bytes:
            chars -= len(item)
        elif kind is dict:
            values -= len(item)
            if values >= 0:
                chars -= sum([len(key) if type(key) is str else SMALL_CHARS + 1 for key in item])
                stack += item.values()
        elif kind is list or kind is tuple:
            values -= len(item)
            if values >= 0:
                stack += item
        elif kind is int:
            chars -= item.bit_length() >> 8
        elif kind is Content:
            if not item.is_normal:
                stack += (item.blocks, item.data, item.meta)
        elif item is not None and kind is not bool and kind is not float and not _is_foreign_atom(kind):
            attributes = _attributes_of_record(kind, item)
            if attributes is None:
                return False
            stack.append(attributes)
        if values < 0 or chars < 0:
            return False
    return True


def _is_foreign_atom(kind: type) -> bool:
    return any(getattr(sys.modules.get(module), name, None) is kind for module, name in _FOREIGN_ATOMS)


def _attributes_of_record(kind: type, value: object) -> dict[str, object] | None:
    """The fields of a dataclass, if it keeps them where they can be read without any code of its own."""
    if type(kind) is not type and type(kind) is not ABCMeta:  # its metaclass may answer anything
        return None
    classes = [vars(it) for it in kind.__mro__[:-1]]
    fields = next((it["__dataclass_fields__"] for it in classes if "__dataclass_fields__" in it), None)
    if type(fields) is not dict or any(map(_has_hook, classes)):
        return None
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has slots
        return None
    return attributes if type(attributes) is dict and attributes.keys() == fields.keys() else None


def _has_hook(members: Mapping[str, object]) -> bool:
    """Whether a class answers for the attributes of its objects itself."""
    return not _HOOKS.isdisjoint(members) or type(members.get("__dict__", _DICT)) is not GetSetDescriptorType


def meta_of(content: Content) -> dict[str, JSON] | None:
    """What a server said about its answer, as JSON data that shares nothing with it."""
    if content.meta is None or content.is_normal:
        return content.meta
    return cast("dict[str, JSON]", normalise(content.meta))


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


def dumps_rendered(value: JSON) -> bytes:
    """JSON text of what was normalised."""
    try:
        return dumps_leniently(value, step)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
