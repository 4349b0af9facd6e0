"""What a tool logs while a call of it runs: bounded, in the order in which it comes. Knows nothing of who keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

_MAX_LINES: Final = 100
_MAX_TEXT: Final = 2_000
"""Characters of a line. Of a longer one the end is kept: that of a traceback says what happened."""


class LogLine(NamedTuple):
    """One line."""

    after_us: int
    """Microseconds since the call came in."""
    level: str
    """`debug`, `info`, `warning` or `error`."""
    text: str


OnLog: TypeAlias = Callable[[LogLine], None]


class CallLog:
    """The first lines of a call. Any thread may add one.

    Whoever keeps it may look at it a moment after the call was answered: the lines of another process may come later
    than its answer.
    """

    __slots__ = ("_left_out", "_lines")

    def __init__(self) -> None:
        self._lines: list[LogLine] = []
        self._left_out = 0

    def add(self, line: LogLine) -> LogLine:
        """Returns the line as it may be shown."""
        if len(line.text) > _MAX_TEXT:
            line = line._replace(text=f"…{line.text[-_MAX_TEXT:]}")
        if len(self._lines) < _MAX_LINES:
            self._lines.append(line)
        else:
            self._left_out += 1
        return line

    def lines(self) -> list[LogLine]:
        """At the end, how many more there were."""
        found = list(self._lines)
        if self._left_out:
            found.append(LogLine(found[-1].after_us, "info", f"… and {self._left_out:,} more"))
        return found
