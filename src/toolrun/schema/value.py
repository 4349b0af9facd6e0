"""JSON values: what they are, where they stand, how they are shown. Pure; knows no schema."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolrun.json import JSON, Schema
from toolrun.text import printable, show

MAX_TEXT = 10_000_000
"""The longest JSON text that is parsed, in characters or bytes."""
MAX_NESTING = 100
"""How deep arguments may be nested. Validating a recursive schema recurses with the value, without a limit."""

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
        inner = {id(item): item for held in level for item in _items(held) if isinstance(item, dict | list | tuple)}
        if not inner:
            return False
        level = list(inner.values())
    return True


def _items(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def size(value: JSON, limit: int) -> int:
    """How many values there are in this one, itself included. Stops counting above the limit."""
    total = 0
    stack = [value]
    while stack and total <= limit:
        item = stack.pop()
        total += 1
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return total


def pointer(*keys: str | int) -> str:
    """The JSON pointer (RFC 6901) of these keys below each other."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


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
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def same(one: JSON, other: JSON) -> bool:
    """Equality as JSON has it: 1 is 1.0, but not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
