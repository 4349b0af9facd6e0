"""An answer on its way to the reader: as the text that arrives, or as Markdown, block by block."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from toolrun.cli.output import Output, terminal_safe

if TYPE_CHECKING:
    from toolrun.cli.markdown import MarkdownBlocks

_TAIL: Final = 32
"""Characters of the unfinished block to show."""


class AnswerView(Protocol):
    """Shows an answer that arrives in pieces."""

    def say(self, text: str) -> None:
        """Show more of it."""

    def end_line(self) -> None:
        """Show everything that has arrived, and start a new line."""


class TextView:
    """The text as it is."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._is_in_line = False

    def say(self, text: str) -> None:
        self._output.piece(text)
        self._is_in_line = not text.endswith("\n")

    def end_line(self) -> None:
        if self._is_in_line:
            self._output.piece("\n")
        self._is_in_line = False


class MarkdownView:
    """Each block of Markdown when it is finished. `on_unfinished` hears the end of what has arrived of the next one."""

    def __init__(self, output: Output, on_unfinished: Callable[[str], None]) -> None:
        self._output = output
        self._on_unfinished = on_unfinished
        self._blocks: MarkdownBlocks | None = None
        self._is_first = True

    def say(self, text: str) -> None:
        if self._blocks is None:
            from toolrun.cli.markdown import MarkdownBlocks  # here, since rich takes a moment to import

            self._blocks = MarkdownBlocks()
        for block in self._blocks.feed(terminal_safe(text)):
            self._show(block.text, block.continues)
        self._on_unfinished(_tail(self._blocks.unfinished))

    def end_line(self) -> None:
        for block in self._blocks.end() if self._blocks is not None else ():
            self._show(block.text, block.continues)
        self._is_first = True

    def _show(self, text: str, continues: bool) -> None:
        from toolrun.cli.markdown import RenderedMarkdown

        if not self._is_first and not continues:
            self._output.piece("\n")
        self._is_first = False
        self._output.rich(RenderedMarkdown(text))


def can_show_markdown(output: Output) -> bool:
    """Whether a person reads it on a terminal that knows styles."""
    return output.is_terminal and os.environ.get("TERM") != "dumb"


def _tail(text: str) -> str:
    last = text.rstrip("\n").rpartition("\n")[2]
    return last if len(last) <= _TAIL else f"…{last[-_TAIL:]}"
