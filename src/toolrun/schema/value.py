"""JSON values: what they are, where they stand, how they are shown. Pure; knows no schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any, cast

from toolrun.json import INT64, JSON, Schema
from toolrun.text import is_encodable, name_of, printable, show

MAX_TEXT = 10_000_000
"""The longest JSON text that is parsed, in characters or bytes."""
MAX_NESTING = 100
"""How deep arguments may be nested. Validating a recursive schema recurses with the value, without a limit."""
CLOSED = "x-toolrun-closed"
"""Marks an object in a compiled schema that says nothing of other names: they are unknown names, as at the root."""

_PLAIN_KEY = re.compile(r"[^.\[\]\s\"'\x00-\x1f\x7f]+")


def join(path: str, key: str | int) -> str:
    """`join("filter", "tags")` is `filter.tags`, `join("tags", 0)` is `tags[0]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{show(key)}]"
    return printable(f"{path}.{key}" if path else key)


def is_too_deep(value: object) -> bool:
    """Whether the value is nested deeper than arguments may be. A value that holds itself is."""
    level: list[object] = [value]
    for _ in range(MAX_NESTING + 1):
        inner = {id(item): item for held in level for item in _items(held) if base_type(item) in _CONTAINERS}
        if not inner:
            return False
        level = list(inner.values())
    return True


def is_plain(arguments: object) -> bool:
    """Whether this is an object as a strict reader of JSON makes it, and is not nested too deep.

    The validator looks only at what its schema speaks of, and takes NaN for null, an object of an enumeration for its
    value and half a character for text. So whether arguments are JSON at all is asked apart from whether they fit.
    """
    if type(arguments) is not dict:
        return False
    level: list[Any] = [arguments]
    for _ in range(MAX_NESTING + 1):
        below: dict[int, Any] = {}  # each object once: they may be shared
        for held in level:
            items = held
            if type(held) is dict:
                items = held.values()
                for key in held:
                    if type(key) is not str or not (key.isascii() or is_encodable(key)):
                        return False
            for item in items:
                kind = type(item)
                if kind is str:
                    is_fine = item.isascii() or is_encodable(item)
                elif kind is int:
                    is_fine = -INT64 <= item < INT64 or is_number(item)
                elif kind is float:
                    is_fine = isfinite(item)
                elif kind is dict or kind is list:
                    below[id(item)] = item
                    continue
                else:
                    is_fine = kind is bool or item is None
                if not is_fine:
                    return False
        if not below:
            return True
        level = list(below.values())
    return False


def is_number(value: int | float) -> bool:
    """Whether JSON can carry the number to everybody: it is finite, and no larger than a float can be."""
    if isinstance(value, float):
        return isfinite(value)
    if -INT64 <= value < INT64:
        return True
    try:
        float(value)
    except OverflowError:
        return False
    return True


def exactly(value: object, limit: int) -> str | int | float | list[Any] | dict[Any, Any] | None:
    """A value of a subclass of JSON's types, or a tuple, as the base type has it: without any code of its own.

    None if it is something else, or has more than `limit` items.
    """
    kind = type(value)
    for base, length, copy in _BASES:
        if issubclass(kind, base):
            return None if length is not None and length(value) > limit else copy(value)
    return None


_BASES: tuple[tuple[type, Callable[[Any], int] | None, Callable[[Any], Any]], ...] = (
    (str, None, str.__str__),
    (dict, dict.__len__, lambda members: dict(dict.items(members))),  # `copy` would ask for its keys
    (list, list.__len__, list.copy),
    (tuple, tuple.__len__, lambda items: list(tuple.__iter__(items))),
    (int, None, int.__int__),
    (float, None, float.__float__),
)


_CONTAINERS = frozenset({dict, list, tuple})
_NAMES: dict[type, str] = {
    **{type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"},
    **{list: "array", tuple: "array", dict: "object"},
}


class NotJSONError(Exception):
    """A value that JSON cannot express, and where it stands."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def to_plain(value: object) -> JSON:
    """The value as a strict reader of JSON would have made it, from tuples and subclasses of JSON's types.

    It must not be too deep. Raises NotJSONError for what means nothing in JSON.
    """
    return _to_plain(value, "", {})


def _to_plain(value: Any, path: str, done: dict[int, JSON]) -> JSON:
    kind = base_type(value)
    if value is None or kind is bool:
        return cast(JSON, value)
    if kind is str:
        text = str.__str__(value)
        if not is_encodable(text):
            raise NotJSONError(path, f"'{path}' is not valid text: {show(text)} holds half a character")
        return text
    if kind is int or kind is float:
        number = int.__int__(value) if kind is int else float.__float__(value)
        if not is_number(number):
            what = "a smaller number" if kind is int else f"a number, got {show(number)}"
            raise NotJSONError(path, f"'{path}' must be {what}")
        return number
    if kind is None:
        raise NotJSONError(path, f"'{path}' is a {name_of(type(value))}, which JSON cannot express")
    if id(value) not in done:  # each object once: they may be shared
        done[id(value)] = _plain_container(value, path, done)
    return done[id(value)]


def _plain_container(value: Any, path: str, done: dict[int, JSON]) -> JSON:
    if base_type(value) is not dict:
        return [_to_plain(item, join(path, index), done) for index, item in enumerate(_items(value))]
    plain: dict[str, JSON] = {}
    for key, item in dict.items(value):
        name = str.__str__(key) if base_type(key) is str else None
        if name is None or not is_encodable(name):
            raise NotJSONError(path, f"the name {show(key)} is not valid text")
        plain[name] = _to_plain(item, join(path, name), done)
    return plain


def _items(value: Any) -> Iterator[object]:
    kind = base_type(value)
    if kind is dict:
        yield from dict.values(value)
    elif kind is list:
        yield from list.__iter__(value)
    elif kind is tuple:
        yield from tuple.__iter__(value)


def size(value: JSON, limit: int) -> int:
    """How many values there are in this one, itself included. Stops counting above the limit."""
    total = 0
    stack = [value]
    while stack and total <= limit:
        item = stack.pop()
        total += 1
        if isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
    return total


def pointer(*keys: str | int) -> str:
    """The JSON pointer (RFC 6901) of these keys below each other."""
    return "".join(["/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys])


def lookup(root: JSON, where: str) -> JSON:
    """What a JSON pointer leads to, or `None`."""
    found = root
    for token in where.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def local_reference(root: Schema, reference: JSON) -> tuple[str, Schema] | None:
    """The pointer and schema of a `$ref` such as `#/$defs/point`; `None` for every other kind of reference."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    from urllib.parse import unquote  # few schemas have references

    where = unquote(reference[1:])
    schema = lookup(root, where)
    return (where, schema) if isinstance(schema, dict) else None


def type_of(value: object) -> str:
    """The JSON name of a value's type."""
    base = base_type(value)
    return str(name_of(type(value))) if base is None else _NAMES[base]


def base_type(value: object) -> type | None:
    """The type of JSON, or the tuple, that a value is of.

    `isinstance` would ask the value itself, which may answer anything.
    """
    kind = type(value)
    if value is None or kind is bool:
        return kind
    return next((base for base, _, _ in _BASES if issubclass(kind, base)), None)


def same(one: JSON, other: JSON) -> bool:
    """Equality as JSON has it: 1 is 1.0, but not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
