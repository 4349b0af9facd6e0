"""Values of any kind as JSON data: `toolrun.result.normalise` in spirit, for any Python and without its imports.

A value of some type can only exist once the type's module is imported, so types are looked up there.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping, Sequence, Set, ValuesView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 64
_MAX_REVISITS = 100_000
"""How often containers that were met before are entered again: in a web of objects there are endlessly many paths."""
_MAX_BITS = 14_000
"""Python refuses to write an integer of more than 4300 digits as text."""


def normalise(value: object) -> Any:
    """As JSON data. Never raises."""
    return _Walk().value(value, ())


def step(value: object) -> object:
    """One step towards JSON for an object that is not JSON; at worst its text. Never raises."""
    try:
        return convert(value)
    except Exception:  # noqa: BLE001  a foreign object's own methods; its text will do instead
        return _described(value)


def convert(value: Any) -> object:
    """The same, but raises TypeError for an object that has no form in JSON."""
    kind = type(value)
    if isinstance(value, type):
        raise TypeError("a class is not JSON")
    if hasattr(kind, "__dataclass_fields__"):
        fields = ((name, field) for name, field in kind.__dataclass_fields__.items() if not name.startswith("_"))
        return {name: getattr(value, name) for name, field in fields if field._field_type.name == "_FIELD"}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(value))
    for dump in ("model_dump", "to_dict", "tolist"):  # pydantic, pandas and others, numpy
        if callable(getattr(kind, dump, None)):
            return getattr(value, dump)()
    if _is(value, "enum", "Enum"):
        return value.value
    if isinstance(value, float):
        return float(value)
    if _is(value, "decimal", "Decimal"):
        return _from_decimal(value)
    if _is(value, "datetime", "date") or _is(value, "datetime", "time"):
        return value.isoformat()
    if _is(value, "datetime", "timedelta"):
        return value.total_seconds()
    return _from_protocol(value)


def _from_protocol(value: object) -> object:
    if isinstance(value, (complex, os.PathLike)):
        return str(value)
    if _is(value, "uuid", "UUID") or _is(value, "collections", "UserString"):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        try:
            return sorted(value)
        except Exception:  # noqa: BLE001  foreign comparison operators; what cannot be compared stays as it is
            return list(value)
    if isinstance(value, (Sequence, ValuesView)):
        return list(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {_described(value)}"
    raise TypeError(f"{type(value).__name__} is not JSON")


def _is(value: object, module: str, name: str) -> bool:
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(value, found)


def _from_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        import binascii

        return "data:application/octet-stream;base64," + binascii.b2a_base64(data, newline=False).decode()


def _from_decimal(value: Any) -> object:
    if not value.is_finite():
        return None
    return int(value) if value.adjusted() < 15 and value == value.to_integral_value() else str(value)


def _clean(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _described(value: object) -> str:
    for describe in (str, repr):
        try:
            return _clean(describe(value))
        except Exception:  # noqa: BLE001  a foreign object's own __str__ or __repr__
            continue
    return f"<{type(value).__name__}>"


class _Walk:
    def __init__(self) -> None:
        self._met: set[int] = set()
        self._revisits = 0

    def value(self, value: object, above: tuple[int, ...]) -> Any:
        """`above` are the containers that hold the value, so that a cycle ends."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _clean(str.__str__(value))
        if isinstance(value, int):
            number = int.__int__(value)
            return number if number.bit_length() <= _MAX_BITS else hex(number)
        if type(value) is float:
            return value if value - value == 0 else None  # not for NaN and infinities
        if id(value) in above or len(above) > _MAX_DEPTH or self._revisits > _MAX_REVISITS:
            return "…"
        self._revisits += id(value) in self._met
        self._met.add(id(value))
        above = (*above, id(value))
        if isinstance(value, dict):
            return {_key(key): self.value(item, above) for key, item in dict.items(value)}
        if isinstance(value, list):
            return [self.value(item, above) for item in list.__iter__(value)]
        if isinstance(value, tuple):
            return [self.value(item, above) for item in tuple.__iter__(value)]
        return self.value(step(value), above)


def _key(key: object) -> str:
    if isinstance(key, str):
        return _clean(str.__str__(key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if _is(key, "enum", "Enum"):
        return _key(key.value)  # type: ignore[attr-defined]
    return _described(step(key) if _is(key, "datetime", "date") or _is(key, "datetime", "time") else key)
