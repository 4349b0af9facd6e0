"""One line that says what runs, how far it has got and for how long: the words of the status line. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from toolrun.cli.wrapped_line import cut_to_columns, width_of
from toolrun.text import one_line
from toolrun.tools.context import Progress

_NARROWEST: Final = 10
_BAR: Final = 20
"""Columns of a bar, where there is room."""
_SHORT_BAR: Final = 5
_LONGEST_NAME: Final = 32


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a terminal can show."""

    spinner: str
    done: str
    left: str


BRAILLE: Final = Glyphs("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "━", "─")
ASCII: Final = Glyphs("|/-\\", "#", ".")


@dataclass(frozen=True, slots=True)
class Activity:
    """What is shown."""

    name: str
    seconds: float
    progress: Progress | None = None
    others: int = 0
    """How many calls run beside it."""


def status_parts(activity: Activity, tick: int, columns: int, glyphs: Glyphs) -> tuple[str, str, str, str]:
    """The spinner, the name, the bar and the rest, which together are at most `columns` wide.

    The time comes first, then the numbers, the bar and the message: what does not fit is left out.
    """
    columns = max(columns, _NARROWEST)
    spinner = glyphs.spinner[tick % len(glyphs.spinner)]
    more = f" +{activity.others}" if activity.others else ""
    time = f"{more}  {duration(activity.seconds)}"
    left = columns - len(spinner) - 1 - len(time)
    name = cut_to_columns(one_line(activity.name), max(1, min(_LONGEST_NAME, left)))
    left -= width_of(name)
    numbers = bar = message = ""
    if (progress := activity.progress) is not None:
        share, said = _share(progress), _numbers(progress)
        if said and len(said) + 2 <= left:
            numbers = f"  {said}"
            left -= len(numbers)
        if share is not None and left >= _SHORT_BAR + 2:
            width = _BAR if left >= 2 * _BAR else _SHORT_BAR
            full = int(share * width)
            bar = f"  {glyphs.done * full}{glyphs.left * (width - full)}"
            left -= len(bar)
        words = one_line(" ".join(progress.message.split()))
        if words and left >= 2 + min(len(words), _SHORT_BAR):
            message = f"  {cut_to_columns(words, left - 2)}"
    return spinner, f" {name}", bar, f"{numbers}{message}{time}"


def duration(seconds: float) -> str:
    """`7 s`, `2 min 5 s`."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def _share(progress: Progress) -> float | None:
    """The part that is done, from 0 to 1; None if nobody knows. A tool may say anything."""
    total = _number(progress.total)
    done = _number(progress.progress)
    if total is None or done is None or total <= 0:
        return None
    return min(1.0, max(0.0, done / total))


def _numbers(progress: Progress) -> str:
    done, total = _number(progress.progress), _number(progress.total)
    if done is None or (total is None and not done):
        return ""
    return f"{done:g}" if total is None else f"{done:g}/{total:g}"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
