"""JSON text: the one place that knows orjson, and where orjson and Python part ways.

orjson reads an integer beyond 64 bits as a float, which turns one identifier into another, and refuses to write it.
Python's own module does both right and takes ten times as long, so it is asked only when there is such an integer.
Its one twin is `worker/codec.py`, which runs where toolrun is not installed.

orjson is imported by the first function that needs it: it takes as long to import as everything else of a small
program, and most modules want nothing but the types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Schema: TypeAlias = dict[str, JSON]

JSONDecodeError: Final = json.JSONDecodeError
"""What `loads` raises. It knows the position."""
INT64: Final = 2**63
"""An integer is beyond 64 bits unless -INT64 <= it < INT64."""

_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")
_DIGITS: Final = bytes(ord("1") if chr(byte) in "0123456789" else 0 for byte in range(256))
_LONG: Final = b"1" * 19
"""As many digits as the first integers beyond 64 bits have, which are negative."""
_EXACT: Final = frozenset({str, int, bool, type(None)})
_LARGE: Final = 10_000
"""Characters or bytes of a text that takes longer to search than its value."""


def loads(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text, with every integer as it was written. Raises JSONDecodeError, a ValueError."""
    import orjson

    value = orjson.loads(text)
    if len(text) > _LARGE and type(value) is dict and _EXACT.issuperset(map(type, value.values())):
        return value  # an integer that orjson cannot hold would be a float
    # Twice as fast as a search with an expression, which matters for each line of a worker.
    is_long = _LONG_NUMBER.search(text) is not None if isinstance(text, str) else _LONG in text.translate(_DIGITS)
    if is_long:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):  # more digits than Python reads, or nested too deeply for it
            return value
    return value


def _write_first(value: object) -> bytes:
    """`_write` until it has been used: an import statement in it would cost as much as writing a small value."""
    global _write
    import orjson

    _write = orjson.dumps
    return orjson.dumps(value)


_write: Callable[[object], bytes] = _write_first


def dumps(value: object, *, sort_keys: bool = False) -> bytes:
    """The value as compact UTF-8 text. Raises TypeError for what is not JSON."""
    try:
        return _write_sorted(value) if sort_keys else _write(value)
    except TypeError:  # integers beyond 64 bits, or not JSON at all
        return _standard(value, sort_keys)


def _write_sorted(value: object) -> bytes:
    import orjson

    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def dump_line(value: object) -> bytes:
    """`dumps` with a line feed at the end. Raises TypeError for what is not JSON."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return _standard(value, sort_keys=False) + b"\n"


def dumps_leniently(value: object, default: Callable[[Any], object]) -> bytes:
    """Any object as JSON text: keys become strings, NaN and infinities null, the rest is what `default` makes of it.

    Raises TypeError, ValueError or RecursionError where orjson gives up: long integers, lone surrogates, cycles.
    """
    import orjson

    # Its own reading of dataclasses lacks fields of a base with slots, and has attributes that are not fields.
    # That of numpy writes a missing time as 1970.
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
    return orjson.dumps(value, default=default, option=options)


def _standard(value: object, sort_keys: bool) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)
        return text.encode()
    except ValueError as error:  # NaN beside a long integer, a lone surrogate, a cycle
        raise TypeError(str(error)) from error
