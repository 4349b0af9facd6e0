"""Values of any type → JSON data. Host and worker both use it, so that a result does not depend on where a tool runs.

`step` is for JSON encoders, which call it for each object that they do not know. `Walk` is for what stops an encoder:
NaN, cycles, lone surrogates, integers beyond 64 bits, keys of any type.

A foreign object may be as large as it likes, or have no end. One call into C holds the GIL, and with it every thread of
the process, until it returns; so what may be large is read in pieces, and what has no end is cut.

Imports nothing that a worker does not have anyway: a value of some type can only exist once the type's module has been
imported, so types are looked up there.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping, Sequence, Set, ValuesView
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Step = Callable[[Any], object]

_MAX_DEPTH = 64
_MAX_REVISITS = 100_000
"""How often `walk` enters containers that it has met before: a web of objects has endlessly many paths."""
_MAX_BITS = 14_000
"""Python refuses to write an integer of more than 4300 digits as text."""
_MAX_TYPES = 1000
"""How many types have their step remembered: a program may make types without end."""
PIECE = 10_000
"""Items that are read in one call."""
_TEXT_PIECE = 999_999
"""Characters or bytes that are converted in one call; a multiple of 3, as base64 needs it."""
_MAX_ITEMS = 10_000_000
"""Items of a sequence that makes them as they are asked for: it need not have an end."""

_steps: dict[type, Step] = {}


def walk(value: object) -> Any:
    """The value as JSON data that shares nothing with it. Never raises."""
    return Walk().value(value, ())


def step(value: object) -> object:
    """One step towards JSON for an object that is not JSON; at worst its text. Never raises."""
    try:
        return (_steps.get(type(value)) or _step_for(type(value)))(value)
    except BaseException:  # noqa: BLE001  a foreign object's own methods, which may even exit; its text will do instead
        return _described(value)


def convert(value: Any) -> object:
    """`step` for those who want no text instead: raises TypeError for an object that has no form in JSON."""
    return _step_for(type(value))(value)


def clean(text: str) -> str:
    """The text with lone surrogates replaced: they cannot be encoded."""
    if text.isascii():
        return text
    if len(text) <= _TEXT_PIECE:
        return _clean_piece(text)
    pieces, start = [], 0
    while start < len(text):
        end = start + _TEXT_PIECE
        end += "\ud800" <= text[end - 1 : end] <= "\udbff"  # the other half of that character follows
        pieces.append(_clean_piece(text[start:end]))
        start = end
    return "".join(pieces)


def _clean_piece(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _step_for(kind: type) -> Step:
    if kind not in _steps:
        if len(_steps) >= _MAX_TYPES:
            _steps.clear()
        _steps[kind] = _find_step(kind)
    return _steps[kind]


def _find_step(kind: type) -> Step:
    if issubclass(kind, type):
        return _refuse
    if _is(kind, "enum", "Enum"):
        return _member_value
    if hasattr(kind, "__dataclass_fields__"):
        return _record(kind)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return _from_bytes
    if hasattr(kind, "to_dict") and hasattr(kind, "iloc"):
        return _from_table
    if hasattr(kind, "tolist") and hasattr(kind, "ndim"):
        return _from_array
    for dump in ("model_dump", "to_dict", "tolist"):  # pydantic, pandas and others, numpy
        if callable(getattr(kind, dump, None)):
            return _method(dump)
    if issubclass(kind, float):
        return float
    if _is(kind, "decimal", "Decimal"):
        return _from_decimal
    if _is(kind, "datetime", "date") or _is(kind, "datetime", "time"):
        return _method("isoformat")
    if _is(kind, "datetime", "timedelta"):
        return _method("total_seconds")
    return _find_step_by_protocol(kind)


def _find_step_by_protocol(kind: type) -> Step:
    if issubclass(kind, (complex, os.PathLike)) or _is(kind, "uuid", "UUID") or _is(kind, "collections", "UserString"):
        return str
    if issubclass(kind, Mapping):
        return dict
    if issubclass(kind, Set):
        return _sorted
    if issubclass(kind, (Sequence, ValuesView)):
        return _listed
    if issubclass(kind, BaseException):
        return lambda error: f"{type(error).__name__}: {_described(error)}"
    return _refuse


def _is(kind: type, module: str, name: str) -> bool:
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and issubclass(kind, found)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _method(name: str) -> Step:
    return lambda value: getattr(value, name)()


def _member_value(member: Any) -> object:
    return member.value


def _record(kind: Any) -> Step:
    """The public fields of a dataclass, and no attributes that are not fields."""
    fields = kind.__dataclass_fields__.values()
    names = [it.name for it in fields if it._field_type.name == "_FIELD" and not it.name.startswith("_")]
    known = set(names)

    def read(value: Any) -> object:
        attributes: Any = getattr(value, "__dict__", None)
        if attributes is not None and attributes.keys() == known:
            return attributes  # most dataclasses, in half the time
        return {name: getattr(value, name) for name in names}

    return read


def _listed(values: Any) -> list[Any]:
    """The items of a sequence, up to a limit: it may be lazy, and have no end."""
    items: list[Any] = []
    rest = iter(values)
    while len(items) < _MAX_ITEMS:
        piece = list(islice(rest, PIECE))
        items += piece
        if len(piece) < PIECE:
            return items
    items.append("…")
    return items


def _sorted(values: Any) -> list[Any]:
    """A set, in the same order every time if its items can be compared."""
    items = _listed(values)
    try:
        if len(items) <= PIECE:
            return sorted(items)
        import heapq

        return list(heapq.merge(*(sorted(items[at : at + PIECE]) for at in range(0, len(items), PIECE))))
    except Exception:  # noqa: BLE001  foreign comparison operators
        return items


def _from_array(array: Any) -> object:
    """Of numpy and its kin, in pieces."""
    if not array.ndim or array.size <= PIECE:
        return array.tolist()
    if array.ndim > 1:
        return [array[index] for index in range(len(array))]
    return [item for at in range(0, len(array), PIECE) for item in array[at : at + PIECE].tolist()]


def _from_table(table: Any) -> object:
    """Of pandas: a series becomes {index: value}, a frame {column: {index: value}}."""
    if len(table) <= PIECE:
        return table.to_dict()
    whole: dict[Any, Any] = {}
    for at in range(0, len(table), PIECE):
        piece = table.iloc[at : at + PIECE].to_dict()
        if table.ndim == 1:
            whole.update(piece)
        else:
            for column, values in piece.items():
                whole.setdefault(column, {}).update(values)
    return whole


def _from_bytes(data: Any) -> str:
    data = bytes(data)
    if len(data) <= _TEXT_PIECE:
        pieces = [data]
    else:
        pieces = [data[at : at + _TEXT_PIECE] for at in range(0, len(data), _TEXT_PIECE)]
    try:
        return _decoded(pieces)
    except UnicodeDecodeError:
        import binascii

        encoded = [binascii.b2a_base64(piece, newline=False).decode() for piece in pieces]
        return "".join(["data:application/octet-stream;base64,", *encoded])


def _decoded(pieces: list[bytes]) -> str:
    if len(pieces) == 1:
        return str(pieces[0], "utf-8")
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")()
    return "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])


def _from_decimal(value: Any) -> object:
    if not value.is_finite():
        return None
    return int(value) if value.adjusted() < 15 and value == value.to_integral_value() else str(value)


def _described(value: object) -> str:
    for describe in (str, repr):
        try:
            return clean(describe(value))
        except BaseException:  # noqa: BLE001  a foreign object's own __str__ or __repr__, which may even exit
            continue
    return f"<{type(value).__name__}>"


class Walk:
    """One way through a value that may be of any type, hold itself, or be a web."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self._revisits = 0

    def value(self, value: Any, above: tuple[int, ...]) -> Any:
        """`above` are the containers that hold the value, so that a cycle ends."""
        kind = type(value)  # `isinstance` would also ask the value itself, which may answer anything
        if value is None or kind is bool:
            return value
        if issubclass(kind, str):
            return clean(str.__str__(value))
        if issubclass(kind, int):
            number = int.__int__(value)
            return number if number.bit_length() <= _MAX_BITS else hex(number)
        if kind is float:
            return value if _is_finite(value) else None
        if id(value) in above or len(above) > _MAX_DEPTH or self._revisits > _MAX_REVISITS:
            return "…"
        self._revisits += id(value) in self._met
        self._met.add(id(value))
        above = (*above, id(value))
        if issubclass(kind, dict):
            return self.members(value, above)
        if issubclass(kind, list):
            return self.items(list.__iter__(value), above)
        if issubclass(kind, tuple):
            return self.items(tuple.__iter__(value), above)
        return self.value(step(value), above)

    def members(self, members: dict[Any, Any], above: tuple[int, ...]) -> dict[str, Any]:
        return {_key(key): self.value(item, above) for key, item in dict.items(members)}

    def items(self, items: Iterator[object], above: tuple[int, ...]) -> list[Any]:
        return [self.value(item, above) for item in items]


def _key(key: Any) -> str:
    """A key as orjson writes it."""
    if isinstance(key, str):
        return clean(str.__str__(key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    kind = type(key)
    if kind is float and not _is_finite(key):
        return "null"
    if _is(kind, "enum", "Enum"):
        return _key(key.value)
    return _described(step(key) if _is(kind, "datetime", "date") or _is(kind, "datetime", "time") else key)


def _is_finite(number: float) -> bool:
    return number - number == 0
