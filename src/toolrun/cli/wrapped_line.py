"""Lines with the words of others, on a terminal: one that is too long goes on further to the right.

The terminal would let it go on at the left edge, where only toolrun writes: a value could pose as a line of ours.
"""

from __future__ import annotations

import os
from typing import Final

_UNKNOWN_WIDTH: Final = 80
_FURTHER: Final = 4
_NARROWEST: Final = 20


def wrapped(line: str, descriptor: int, indent: int = 0) -> list[str]:
    """The rows of a line, indented, for the terminal at that descriptor. What is no terminal has rows of 80."""
    return [
        f"{' ' * (indent + _FURTHER * bool(number))}{row}"
        for number, row in enumerate(_rows(line, _columns(descriptor) - indent - _FURTHER))
    ]


def _rows(line: str, width: int) -> list[str]:
    """The line in pieces that are no wider."""
    width = max(width, _NARROWEST)
    rows, left = [""], width
    for it in line:
        columns = 1 if it < "\u0300" else 2  # as many as it may take
        if columns > left:
            rows.append("")
            left = width
        rows[-1] += it
        left -= columns
    return rows


def _columns(descriptor: int) -> int:
    try:
        return os.get_terminal_size(descriptor).columns or _UNKNOWN_WIDTH
    except OSError:
        return _UNKNOWN_WIDTH
