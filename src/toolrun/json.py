"""JSON text: the one place that knows orjson, and where orjson and Python part ways.

orjson reads an integer beyond 64 bits as a float, which turns one identifier into another, and refuses to write it.
Python's own module does both right and takes ten times as long, so it is asked only when there is such an integer.

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


def loads(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text, with every integer as it was written. Raises JSONDecodeError, a ValueError."""
    import orjson

    value = orjson.loads(text)
    # Twice as fast as a search with an expression, which matters for each line of a worker.
    is_long = _LONG_NUMBER.search(text) is not None if isinstance(text, str) else _LONG in text.translate(_DIGITS)
    if is_long:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):  # more digits than Python reads, or nested too deeply for it
            return value
    return value


def loads_slowly(text: str | bytes) -> Any:
    """`loads` for text of any size, in a thread: Python's own reader in Python lets other threads run meanwhile."""
    from json import decoder, scanner

    reader: Any = json.JSONDecoder(parse_constant=_refuse_constant)
    python: Any = vars(decoder) | vars(scanner)  # its functions in Python, which are not documented
    reader.parse_object, reader.parse_array = python["JSONObject"], python["JSONArray"]
    reader.scan_once = python["py_make_scanner"](reader)
    try:
        return reader.decode(text if isinstance(text, str) else text.decode())
    except RecursionError as error:
        raise JSONDecodeError("nested too deeply", "", 0) from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def dumps(value: object, *, sort_keys: bool = False) -> bytes:
    """The value as compact UTF-8 text. Raises TypeError for what is not JSON."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:  # integers beyond 64 bits, or not JSON at all
        return _standard(value, sort_keys)


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
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_DATACLASS
    return orjson.dumps(value, default=default, option=options)


def _standard(value: object, sort_keys: bool) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)
        return text.encode()
    except ValueError as error:  # NaN beside a long integer, a lone surrogate, a cycle
        raise TypeError(str(error)) from error
