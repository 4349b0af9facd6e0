"""How wide the columns of a table are."""

from __future__ import annotations

import pytest

from toolrun.cli.column_width import NARROW_GAP, WIDE_GAP, fit, measured


@pytest.mark.parametrize(
    ("room", "widths", "gap"),
    [
        (40, [10, 10, 14], WIDE_GAP),  # whole
        (38, [10, 10, 14], NARROW_GAP),  # whole, closer together
        (37, [10, 10, 13], NARROW_GAP),  # what wraps gives way
        (34, [10, 10, 10], NARROW_GAP),
        (33, [10, 9, 10], NARROW_GAP),  # then what has a blank to be folded at
        (29, [10, 5, 10], NARROW_GAP),
        (28, [8, 8, 8], NARROW_GAP),  # then all
        (13, [3, 3, 3], NARROW_GAP),
        (5, [3, 3, 3], NARROW_GAP),  # never nothing
    ],
)
def test_the_columns_that_lose_least_by_it_give_way_first(room: int, widths: list[int], gap: int) -> None:
    columns = [
        measured(["a_tool_abc"], len),
        measured(["1234 (25%)"], len),
        measured(["a few of words"], len, wraps=True),
    ]
    assert fit(columns, room) == (widths, gap)


def test_what_is_cut_gives_way_before_anything_is_folded() -> None:
    columns = [measured(["some words"], len), measured(["x" * 60], len, cuts=True), measured(["short"], len, cuts=True)]
    assert fit(columns, 40) == ([10, 21, 5], NARROW_GAP)
    assert fit(columns, 24) == ([10, 5, 5], NARROW_GAP)
    assert fit(columns, 23) == ([7, 7, 5], NARROW_GAP)


def test_a_word_that_is_very_long_is_folded() -> None:
    assert fit([measured(["x" * 50], len), measured(["some text"], len, wraps=True)], 40) == ([29, 9], NARROW_GAP)
