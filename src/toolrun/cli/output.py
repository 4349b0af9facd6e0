"""Output for people and programs: results on stdout, everything else on stderr.

A pipe gets plain text, a terminal colours and tables (rich is imported only for those). Escape sequences in the text
of a tool do not reach a terminal: a tool must not move the user's cursor.

Imported by `toolrun --help`, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TextIO

import click

from toolrun.cli.column_width import fit, measured
from toolrun.cli.exit import READER_GONE
from toolrun.cli.held_output import held_output
from toolrun.cli.wrapped_line import columns_of

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import OverflowMethod, RenderableType

    from toolrun.json import JSON


_OURS: Final = ("toolrun:", "debug", "info", "warning", "error", "critical")
"""What a line of ours on stderr begins with, unless with the time."""


class Column(NamedTuple):
    """One column of a table."""

    title: str
    style: str = ""
    wraps: bool = False
    """On a terminal it goes on in the next row, rather than any column that does not."""
    cuts: bool = False
    """On a terminal what has no room is cut."""


class Output:
    """The stream for results."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.is_pipe = _is_pipe(stream.fileno())
        """Whether another program reads it."""

    def text(self, text: str) -> None:
        """Print a text unchanged; on a terminal with its control characters escaped."""
        self._write(f"{terminal_safe(text) if self.is_terminal else text}\n")

    def piece(self, text: str) -> None:
        """Print a part of a text that is still arriving, in the same way."""
        self._write(terminal_safe(text) if self.is_terminal else text)

    def json(self, value: JSON, *, is_line: bool = False) -> None:
        """Print a value as JSON: indented on a terminal, on one line in a pipe or if it is one of many."""
        import json

        is_unicode = (self._stream.encoding or "").lower().replace("-", "").startswith("utf")
        indent = 2 if self.is_terminal and not is_line else None
        self.text(json.dumps(value, ensure_ascii=not is_unicode, indent=indent))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], above: Sequence[int] = ()) -> list[int]:
        """Print rows: aligned with spaces in a pipe, with headings and colours on a terminal.

        `above` are the widths of a table that these rows continue. Returns the widths of this one.
        """
        least = above or [0] * len(columns)
        if self.is_terminal:
            return self._rich_table(columns, rows, least)
        widths = [max([width, *(len(row[place]) for row in rows)]) for place, width in enumerate(least)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self._write("  ".join(cells).rstrip() + "\n")
        return widths

    def _rich_table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], above: Sequence[int]) -> list[int]:
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        is_first = not any(above)
        cells = [[terminal_safe(row[place]) for row in rows] for place in range(len(columns))]
        heads = [column.title if is_first else " " * width for column, width in zip(columns, above, strict=True)]
        needed = [
            measured([head, *texts], cell_len, wraps=column.wraps, cuts=column.cuts)
            for column, head, texts in zip(columns, heads, cells, strict=True)
        ]
        widths, gap = fit(needed, columns_of(self._stream.fileno()))
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim", show_header=is_first)
        for column, width in zip(columns, widths, strict=True):
            how: OverflowMethod = "ellipsis" if column.cuts else "fold"
            table.add_column(column.title, style=column.style, no_wrap=column.cuts, overflow=how, width=width)
        for row in zip(*cells, strict=True):
            table.add_row(*map(Text, row))
        self.rich(table)
        return [it.whole for it in needed]

    def rich(self, *parts: RenderableType) -> None:
        """Print renderables of rich. For a terminal only."""
        from rich.console import Console

        console = Console(file=self._stream, highlight=False)
        try:
            with held_output.above_status("\n"):
                for part in parts:
                    console.print(part)
        except BrokenPipeError:
            self._reader_is_gone()

    def _write(self, text: str) -> None:
        try:
            with held_output.above_status(text if self.is_terminal else ""):
                self._stream.write(text)
                self._stream.flush()
        except BrokenPipeError:
            self._reader_is_gone()

    def _reader_is_gone(self) -> NoReturn:
        """End quietly: `toolrun list | head -1` is not an error."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # for the rest of the buffer
        raise click.exceptions.Exit(READER_GONE)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def claim_stdout() -> Output:
    """Reserve stdout for results. Everything else that is written to file descriptor 1 goes to stderr from now on.

    This holds for the rest of the process: a tool that was abandoned at its deadline may print at any time.
    """
    if sys.stdout is None:  # closed by the parent process
        return Output(open(os.devnull, "w"))  # noqa: PTH123  open until the process ends
    sys.stdout.flush()
    # A character that the locale cannot encode is no reason to fail.
    stream = open(os.dup(1), "w", encoding=sys.stdout.encoding, errors="backslashreplace")  # noqa: SIM115, PTH123  as above
    os.dup2(2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY), 1)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # so that the output of tools and the log stay in order
    return Output(stream)


def complain(message: str, *, after_echo: bool = False) -> None:
    """Print an error on stderr. `after_echo`: the terminal has just shown ^C."""
    if sys.stderr is None:
        return
    # Also in a file: it may be shown on a terminal later, and no further line may look like one of ours.
    from toolrun.text import one_line

    first, *rest = (one_line(it) for it in message.expandtabs().replace("\r\n", "\n").split("\n"))
    text = "\n".join([first, *(f"  {it}" if it.startswith(_OURS) or it[:1].isdecimal() else it for it in rest)])
    line = f"{paint('toolrun:', 'red')} {text}\n"
    line = f"\n{line}" if after_echo and sys.stderr.isatty() else line
    held_output.write(lambda: print_on_stderr(line))


def inform(line: str) -> None:
    """Print a line about progress on stderr."""
    held_output.write(lambda: print_on_stderr(f"{paint(terminal_safe(line), 'bright_black')}\n"))


def print_on_stderr(text: str) -> None:
    """Print a text as it is, at once."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads stderr


def explain_unexpected(error: BaseException, *, with_traceback: bool) -> None:
    """Print a bug: one line, or the traceback if asked for."""
    if with_traceback:
        import traceback

        complain("".join(traceback.format_exception(error)).rstrip())
    complain(f"unexpected {type(error).__name__}: {error}" + ("" if with_traceback else " (-vv shows the traceback)"))


def paint(text: str, colour: str) -> str:
    """The text in a colour for stderr, if stderr gets colours (https://no-color.org)."""
    is_wanted = sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, fg=colour) if is_wanted else text


def near(path: Path) -> str:
    """The path relative to the working directory, if it is below it."""
    from pathlib import Path

    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def terminal_safe(text: str) -> str:
    """The text with all control characters escaped but newlines and tabs."""
    from toolrun.redaction import Redactor

    clean = Redactor().text
    return "\n".join(clean(line) for line in text.replace("\r\n", "\n").split("\n"))
