"""The words of the status line: what fits, what is left out, what a tool may say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.cli.progress_bar import ASCII, BRAILLE, Activity, duration, status_parts
from toolrun.cli.wrapped_line import cut_to_columns
from toolrun.text import one_line
from toolrun.tools.context import Progress


def line(activity: Activity, columns: int = 80) -> str:
    return "".join(status_parts(activity, 0, columns, ASCII))


def at(progress: float, total: float | None = None, message: str = "") -> str:
    return line(Activity("copy", 3.9, Progress(progress, total, message)))


def test_all_of_it() -> None:
    assert at(1, 4, "reading") == "| copy  #####...............  1/4  reading  3 s"


def test_without_a_total_there_is_no_bar() -> None:
    assert at(17, message="reading") == "| copy  17  reading  3 s"


def test_nothing_is_reported_but_words() -> None:
    assert at(0, message="connecting") == "| copy  connecting  3 s"


def test_calls_beside_it_are_counted() -> None:
    assert line(Activity("copy", 3, others=2)) == "| copy +2  3 s"


@pytest.mark.parametrize(
    ("progress", "total", "full"),
    [(-5, 10, 0), (50, 10, 20), (0.999, 1, 19), (5, 0, None), (5, -1, None)],
)
def test_a_bar_is_never_longer_than_it_is(progress: float, total: float, full: int | None) -> None:
    shown = at(progress, total)
    assert shown.count("#") == (full or 0)
    assert ("." in shown.replace("0.999", "")) == (full not in (None, 20))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, "7", None, [1]])
def test_what_is_no_number_is_not_shown(value: object) -> None:
    assert line(Activity("copy", 3, Progress(value, value, "x"))) == "| copy  x  3 s"  # type: ignore[arg-type]  # as tools do


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (47, "| copy files  #....  1/4  reading the lis…  3 s"),
        (34, "| copy files  #....  1/4  3 s"),
        (24, "| copy files  1/4  3 s"),
        (18, "| copy files  3 s"),
        (12, "| copy…  3 s"),
    ],
)
def test_the_name_and_the_time_outlast_the_rest_on_a_narrow_terminal(columns: int, shown: str) -> None:
    activity = Activity("copy files", 3, Progress(1, 4, "reading the list of everything"))
    assert len(shown) <= columns
    assert line(activity, columns) == shown


@given(
    st.integers(10, 200),
    st.text(max_size=60),
    st.text(max_size=200),
    st.floats(),
    st.none() | st.floats(),
    st.floats(0, 1e6),
)
def test_it_never_takes_more_columns_than_there_are(
    columns: int, name: str, message: str, progress: float, total: float | None, seconds: float
) -> None:
    spinner, *rest = status_parts(Activity(name, seconds, Progress(progress, total, message), 1), 7, columns, BRAILLE)
    text = "".join(rest)
    wide = sum(1 if it < "\u0300" or it in BRAILLE.done + BRAILLE.left + "…" else 2 for it in text)
    assert len(spinner) + wide <= max(columns, 24)
    assert one_line(text) == text


def test_durations() -> None:
    assert [duration(it) for it in (0.2, 59.9, 60, 3725)] == ["0 s", "59 s", "1 min 0 s", "62 min 5 s"]


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本", 4, "日本"),
        ("日本", 3, "日…"),
        ("日本語", 5, "日本…"),
        ("a", 0, ""),
    ],
)
def test_a_cut_has_a_mark_and_wide_characters_count_twice(text: str, width: int, cut: str) -> None:
    assert cut_to_columns(text, width) == cut
