"""The status line: while a command works, the last line of the terminal says what runs, how far it is and for how long.

It is for people: where stderr is no terminal, or the result goes into a pipe, there is none. A thread draws it, since a
tool may block the event loop. It appears only if the work takes a moment, stands below everything that is written
meanwhile, and is gone at the end, however that comes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, TextIO, cast

from toolrun.cli.held_output import held_output
from toolrun.cli.output import Output, paint
from toolrun.cli.progress_bar import ASCII, BRAILLE, Activity, status_parts
from toolrun.cli.wrapped_line import columns_of
from toolrun.logger import get_logger
from toolrun.tools.context import OnProgress, Progress

logger = get_logger("toolrun")

_AFTER: Final = 0.25
"""Seconds before it appears: most calls are over by then."""
_EVERY: Final = 0.1
"""Seconds between two drawings."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One thing that runs."""

    name: str
    since: float
    progress: Progress | None = None


class StatusLine:
    """What runs, as it is to be shown. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[Hashable, _Work] = {}

    def begin(self, name: str, key: Hashable = "") -> None:
        """From now on something of this name runs."""
        with self._lock:
            self._works[key] = _Work(name, monotonic())

    def report(self, progress: Progress, key: Hashable = "") -> None:
        """It says how far it has got: what reported last is what is shown."""
        with self._lock:
            if (work := self._works.pop(key, None)) is not None:
                self._works[key] = replace(work, progress=progress)

    def listener(self, tool: str) -> OnProgress:
        """What hears the progress of a call of this tool."""

        def listen(progress: Progress) -> None:
            self.report(progress)
            log_progress(tool, progress)

        return listen

    def end(self, key: Hashable = "") -> None:
        with self._lock:
            self._works.pop(key, None)

    def clear(self) -> None:
        """Nothing runs any more."""
        with self._lock:
            self._works.clear()

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return not self._works

    def activity(self) -> Activity | None:
        """What is to be shown now."""
        with self._lock:
            if not self._works:
                return None
            work = next(reversed(self._works.values()))
            seconds = monotonic() - work.since
            return None if seconds < _AFTER else Activity(work.name, seconds, work.progress, len(self._works) - 1)


def log_progress(tool: str, progress: Progress) -> None:
    """What a tool says of its progress, for the log: people see it in the status line."""
    total = "" if progress.total is None else f"/{progress.total:g}"
    logger.info("progress of %s: %g%s %s", tool, progress.progress, total, progress.message)


@contextlib.contextmanager
def status_line(output: Output, name: str = "", *, is_wanted: bool = True) -> Iterator[StatusLine]:
    """Shows what runs until the end of the block, with `name` as the first of it. `output` is for the results."""
    status = StatusLine()
    if name:
        status.begin(name)
    if not is_wanted or output.is_pipe or not _is_for_people():
        yield status
        return
    stream, stdout = sys.stderr, sys.stdout
    over = threading.Event()
    drawing = threading.Thread(target=_draw, args=(status, stream, over), name="toolrun-status", daemon=True)
    sys.stderr, sys.stdout = _above(sys.stderr), _above(sys.stdout)
    drawing.start()
    try:
        yield status
    finally:
        over.set()
        drawing.join(1.0)  # it may be stuck on a terminal that somebody has stopped
        sys.stderr, sys.stdout = stream, stdout
        if not drawing.is_alive():
            held_output.hide_status()


def _is_for_people() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _draw(status: StatusLine, stream: TextIO, over: threading.Event) -> None:
    glyphs, tick = BRAILLE if _can_show(stream, BRAILLE.spinner + BRAILLE.done + BRAILLE.left) else ASCII, 0
    while not over.wait(_EVERY):
        activity = status.activity()
        if activity is None:
            held_output.hide_status()
            continue
        columns = columns_of(stream.fileno()) - 1  # the last column would let some terminals begin a new line
        spinner, name, bar, rest = status_parts(activity, tick, columns, glyphs)
        line = f"{paint(spinner, 'cyan')}{name}{paint(bar, 'cyan')}{paint(rest, 'bright_black')}"
        held_output.show_status(line if _can_show(stream, line) else line.encode("ascii", "replace").decode(), stream)
        tick += 1


def _can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


class _AboveStatus:
    """A stream of Python whose texts stand above the status line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with held_output.above_status(text):
            count = self._stream.write(text)
            self._stream.flush()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _above(stream: TextIO) -> TextIO:
    return stream if stream is None else cast("TextIO", _AboveStatus(stream))
