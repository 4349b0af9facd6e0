"""Values of any type → JSON data. Host and worker both use it, so that a result does not depend on where a tool runs.

`step` is for JSON encoders, which call it for each object that they do not know. `Walk` is for what stops an encoder:
NaN, cycles, lone surrogates, integers beyond 64 bits, keys of any type, iterators. An iterator can be read only once,
and an encoder may begin anew; a walk does not.

A foreign object may be as large as it likes, or have no end. One call into C holds the GIL, and with it every thread of
the process, until it returns; so what may be large is read in pieces, and what has no end is cut.

Imports nothing that a worker does not have anyway: a value of some type can only exist once the type's module has been
imported, so types are looked up there.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import AsyncIterator, Iterator, Mapping, Sequence, Set, ValuesView
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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

_MISSING = ("NAType", "NaTType")
"""The types of what pandas has for values that are not there."""
_FINE_UNITS = ("[ns]", "[ps]", "[fs]", "[as]")
"""Of times in numpy that are too fine for Python's own: it would count them as integers."""

_steps: dict[type, Step] = {}

name_of = type.__dict__["__name__"].__get__
"""The name of a class, without asking its metaclass, which may answer anything."""


class StreamInsideError(TypeError):
    """An encoder has come to an iterator, which only a walk can read."""


def walk(value: object, *, collects: bool = False) -> Any:
    """The value as JSON data that shares nothing with it. Never raises, unless it `collects` what iterators yield.

    Then it raises what they raise, and EndlessStreamError.
    """
    return Walk(collects=collects).value(value, ())


def step(value: object) -> object:
    """One step towards JSON for an object that is not JSON; at worst its text. Never raises."""
    try:
        return (_steps.get(type(value)) or _step_for(type(value)))(value)
    except BaseException:  # noqa: BLE001  a foreign object's own methods, which may even exit; its text will do instead
        return _described(value)


def step_in_result(value: object) -> object:
    """`step` for encoders of results. Raises StreamInsideError for an iterator."""
    if is_collected(type(value)):
        raise StreamInsideError(f"{name_of(type(value))} is not JSON")
    return step(value)


def is_collected(kind: type) -> bool:
    """Whether objects of a type are iterators, and nothing else."""
    try:
        return _step_for(kind) is _without_items
    except BaseException:  # noqa: BLE001  its metaclass may answer anything
        return False


def convert(value: Any) -> object:
    """`step` for those who want no text instead: raises TypeError for an object that has no form in JSON."""
    return _step_for(type(value))(value)


def clean(text: str) -> str:
    """The text with lone surrogates replaced: they cannot be encoded."""
    if text.isascii():
        return text
    if len(text) <= _TEXT_PIECE:
        return _clean_piece(text)
    pieces, start, is_clean = [], 0, True
    while start < len(text):
        end = start + _TEXT_PIECE
        end += "\ud800" <= text[end - 1 : end] <= "\udbff"  # the other half of that character follows
        piece = text[start:end]
        pieces.append(_clean_piece(piece))
        is_clean = is_clean and pieces[-1] is piece
        start = end
    return text if is_clean else "".join(pieces)


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
    if kind.__name__ in _MISSING and kind.__module__.partition(".")[0] == "pandas":
        return _nothing
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
    if issubclass(kind, Iterator):
        return _without_items
    if issubclass(kind, AsyncIterator):
        return _not_collected
    if issubclass(kind, BaseException):
        return lambda error: f"{type(error).__name__}: {_described(error)}"
    return _refuse


def _is(kind: type, module: str, name: str) -> bool:
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and issubclass(kind, found)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _nothing(value: object) -> object:
    return None


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
        try:
            attributes: Any = object.__getattribute__(value, "__dict__")  # a `__getattr__` may answer anything
        except AttributeError:
            attributes = {}
        if attributes.keys() == known:
            return attributes  # most dataclasses, in half the time
        return {name: attributes[name] if name in attributes else getattr(value, name) for name in names}

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


def _without_items(stream: object) -> str:
    """Where nobody may read it, as in a log. A result has what it yields."""
    return f"<{name_of(type(stream))}>"


def _not_collected(stream: object) -> str:
    """What has to be awaited cannot be read where a result is written."""
    return f"<{name_of(type(stream))}: inside a result it is not collected; return a list here>"


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
    dtype = str(getattr(array, "dtype", ""))
    if dtype.endswith(_FINE_UNITS) and dtype.startswith(("datetime64", "timedelta64")):
        array = array.astype(dtype[: dtype.index("[")] + "[us]")
    if not array.ndim:
        value = array.tolist()
        return float(value) if type(value) is type(array) else value  # such as numpy.longdouble
    if array.size <= PIECE:
        return array.tolist()
    if array.ndim > 1:
        if array[0].ndim == array.ndim:  # a numpy.matrix, of which a row is a matrix
            array = sys.modules["numpy"].asarray(array)
        return [array[index] for index in range(len(array))]
    return [item for at in range(0, len(array), PIECE) for item in array[at : at + PIECE].tolist()]


def _from_table(table: Any) -> object:
    """Of pandas: a series becomes {index: value}, a frame {column: {index: value}}.

    Where a label comes twice, that would lose all but the last. Then the labels stand apart, in the order of values.
    """
    labels = {"index": table.index} if table.ndim == 1 else {"index": table.index, "columns": table.columns}
    if not all(it.is_unique for it in labels.values()):
        rows = range(0, len(table), PIECE)
        pieces = [table.iloc[at : at + PIECE] for at in rows]
        if table.ndim == 1:
            return {**labels, "data": [item for piece in pieces for item in piece.tolist()]}
        return {**labels, "data": [row for piece in pieces for row in piece.to_dict(orient="split")["data"]]}
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
    return f"<{name_of(type(value))}>"


class Walk:
    """One way through a value that may be of any type, hold itself, or be a web."""

    def __init__(self, *, collects: bool = False) -> None:
        """`collects`: what iterators yield is part of the value."""
        self._collects = collects
        self._met: set[int] = set()
        self._revisits = 0
        self._streams: dict[int, tuple[object, list[Any]]] = {}
        """What was read from iterators. They are kept, so that nothing else gets their ids."""
        self._length = 0

    @property
    def has_read_streams(self) -> bool:
        """Whether another walk would find less."""
        return bool(self._streams)

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
            return value if value - value == 0 else None  # NaN and infinities
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
        is_collected_here = self._collects and is_collected(kind)
        return self.value(self._collected(value) if is_collected_here else step(value), above)

    def _collected(self, stream: Any) -> list[Any]:
        """What an iterator yields, within the limits of `stream.py`, which all of them in a value share."""
        if id(stream) not in self._streams:
            from .stream import collect_some

            items: list[Any] = []
            self._streams[id(stream)] = stream, items
            self._length = collect_some(stream, items, self._length)
        return self._streams[id(stream)][1]

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
    if kind is float and key - key != 0:
        return "null"
    if _is(kind, "enum", "Enum"):
        return _key(key.value)
    return _described(step(key) if _is(kind, "datetime", "date") or _is(kind, "datetime", "time") else key)
