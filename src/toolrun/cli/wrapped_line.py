"""Wraps lines with foreign text on a terminal: what does not fit goes on further to the right.

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
        for number, row in enumerate(_rows(line, columns_of(descriptor) - indent - _FURTHER))
    ]


def cut_to_columns(line: str, width: int) -> str:
    """The beginning of a line that takes no more columns, with … for the rest."""
    if len(line) <= width and line.isascii():
        return line
    left, kept = width, ""
    for place, it in enumerate(line):
        taken = _width(it)
        is_last = place == len(line) - 1
        if taken > (left if is_last else left - 1):
            return f"{kept}…" if left >= 1 else kept
        kept += it
        left -= taken
    return kept


def width_of(line: str) -> int:
    """How many columns a line takes."""
    return len(line) if line.isascii() else sum(map(_width, line))


def columns_of(descriptor: int) -> int:
    """How wide the terminal at that descriptor is."""
    try:
        return os.get_terminal_size(descriptor).columns or _UNKNOWN_WIDTH
    except OSError:
        return _UNKNOWN_WIDTH


def _rows(line: str, width: int) -> list[str]:
    """The line in pieces that are no wider."""
    width = max(width, _NARROWEST)
    rows, left = [""], width
    for it in line:
        columns = _width(it)
        if columns > left:
            rows.append("")
            left = width
        rows[-1] += it
        left -= columns
    return rows


def _width(character: str) -> int:
    """As many columns as a character may take."""
    return 1 if character < "\u0300" else 2
