"""What a tool logs and reports while a call of it runs: bounded, and in order. Knows nothing of who keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

_MAX_LINES: Final = 100
_MAX_REPORTS: Final = 20
"""Reports of progress. Of more, the first ones and the last one are kept."""
_MAX_TEXT: Final = 2_000
"""Characters of a line. Of a longer one the end is kept: that of a traceback says what happened."""
PROGRESS: Final = "progress"


class LogLine(NamedTuple):
    """One line."""

    after_us: int
    """Microseconds since the call came in."""
    level: str
    """`debug`, `info`, `warning` or `error`; `progress` of a report."""
    text: str


OnLog: TypeAlias = Callable[[LogLine], None]


class CallLog:
    """The first lines of a call. Any thread may add one.

    Whoever keeps it may look at it a moment after the call was answered: the lines of another process may come later
    than its answer.
    """

    __slots__ = ("_last_report", "_left_out", "_lines", "_reports")

    def __init__(self) -> None:
        self._lines: list[LogLine] = []
        self._left_out = 0
        self._reports = 0
        self._last_report: LogLine | None = None

    def add(self, line: LogLine) -> LogLine:
        """Returns the line as it may be shown."""
        line = _cut(line)
        if len(self._lines) - self._reports < _MAX_LINES:
            self._lines.append(line)
        else:
            self._left_out += 1
        return line

    def report(self, after_us: int, words: str) -> None:
        """How far the tool has got."""
        line = _cut(LogLine(after_us, PROGRESS, words))
        if self._reports < _MAX_REPORTS:
            self._reports += 1
            self._lines.append(line)
        else:
            self._last_report = line

    def lines(self) -> list[LogLine]:
        """At the end, how many more there were."""
        found = list(self._lines)
        if self._last_report is not None:
            found = sorted([*found, self._last_report], key=lambda it: it.after_us)
        if self._left_out:
            found.append(LogLine(found[-1].after_us, "info", f"… and {self._left_out:,} more"))
        return found


def _cut(line: LogLine) -> LogLine:
    return line if len(line.text) <= _MAX_TEXT else line._replace(text=f"…{line.text[-_MAX_TEXT:]}")
