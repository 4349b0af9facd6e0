"""JSON as some servers write it, which strict readers refuse. Pure: bytes in, values out.

Python's own module writes NaN, JavaScript's half of a surrogate pair, and a C program may write bytes that are not
UTF-8. One such value in the description of one tool would cost all tools of its server, and in a result what the tool
has done. So a text that cannot be read is read once more: NaN and infinities are null, what is no character is U+FFFD.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from toolrun.json import JSONDecodeError
from toolrun.json_pieces import PIECE, loads_in_pieces

_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
"""One escape sequence or a pair of them. The group: half of a pair."""
_LONGEST: Final = 12
"""Bytes of an escape sequence."""


def loads_foreign(data: bytes) -> Any:
    """The value of a text that is JSON but for what cannot be one. A large one: in a thread. Raises JSONDecodeError."""
    text = b"".join(_whole_characters(it) for it in _slices(data))
    return loads_in_pieces(text.decode("utf-8", "replace"), parse=_loads)


def whole_characters(data: bytes) -> bytes:
    """JSON text in which each half of a surrogate pair is U+FFFD."""
    return _whole_characters(data) if b"\\u" in data else data


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_null, parse_float=_finite)
    except RecursionError:
        raise JSONDecodeError("nested too deeply", "", 0) from None
    except JSONDecodeError:
        raise
    except ValueError as error:  # more digits than Python reads
        raise JSONDecodeError(str(error), "", 0) from None


def _null(constant: str) -> None:
    return None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _whole_characters(data: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], data)


def _slices(data: bytes) -> Iterator[bytes]:
    """The text in parts of some size, none of which ends inside an escape sequence: no call into C takes long."""
    start = 0
    while start < len(data):
        end = start + 10 * PIECE
        while end < len(data) and b"\\" in data[end - _LONGEST : end]:
            end += 1
        yield data[start:end]
        start = end
