"""How wide the columns of a table are on a terminal. Pure.

Where there is no room for all of it, the widest columns give way first. Each keeps what makes it worth reading, in this
order of hope: the columns that are made for that give way alone; the others are folded at their blanks; anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

WIDE_GAP: Final = 3
"""Blanks between two columns of a table."""
NARROW_GAP: Final = 2
"""The same where there is no room."""
_WORD: Final = 20
"""Columns of a word that is not folded, at most."""
_WRAPPED: Final = 10
"""Columns of a cell that goes on in the next row, at least."""
_CUT: Final = 5
_LEAST: Final = 3


class Measurement(NamedTuple):
    """The columns that the cells of a column take."""

    whole: int
    word: int
    """The longest word in it."""
    wraps: bool = False
    cuts: bool = False


def measured(
    cells: Iterable[str], measure: Callable[[str], int], *, wraps: bool = False, cuts: bool = False
) -> Measurement:
    """`measure` tells how wide a text is on the terminal."""
    cells = list(cells)
    words = (min(measure(word), _WORD) for cell in cells for word in cell.split())
    return Measurement(max(map(measure, cells), default=0), max(words, default=0), wraps, cuts)


def fit(columns: Sequence[Measurement], room: int) -> tuple[list[int], int]:
    """The widths, and the gap between two columns."""
    needed, left = [it.whole for it in columns], 0
    for gap in (WIDE_GAP, NARROW_GAP):
        left = room - gap * (len(columns) - 1)
        if sum(needed) <= left:
            return needed, gap
    for least in _hopes(columns):
        if sum(least) <= left:
            return _spread(needed, least, left), NARROW_GAP
    return [max(1, min(it, _LEAST)) for it in needed], NARROW_GAP


def _hopes(columns: Sequence[Measurement]) -> Iterator[list[int]]:
    """What each column has at least."""
    soft = [min(it.whole, _CUT if it.cuts else _WRAPPED) for it in columns]
    gives_way = [it.wraps or it.cuts for it in columns]
    yield [least if gives else it.whole for least, gives, it in zip(soft, gives_way, columns, strict=True)]
    yield [least if gives else it.word for least, gives, it in zip(soft, gives_way, columns, strict=True)]
    yield [min(it.whole, _LEAST) for it in columns]


def _spread(needed: list[int], least: list[int], room: int) -> list[int]:
    """The same width for all, but for those that need less or have more at least."""
    widths = list(least)
    left = room - sum(widths)
    while left > 0 and (growing := [it for it, width in enumerate(widths) if width < needed[it]]):
        narrowest = min(growing, key=lambda it: widths[it])
        widths[narrowest] += 1
        left -= 1
    return widths
