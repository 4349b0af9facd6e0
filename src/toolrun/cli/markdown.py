"""Markdown of a model on a terminal: which part of an answer that still arrives is finished, and how a part looks.

Imports rich, so it is imported only where an answer is shown.

The text is not trusted. Control characters do not reach the terminal, not even those that Markdown makes: `&#8238;`
turns the direction of writing. A link shows its address. HTML is text: rich would leave tags out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from rich.markdown import Heading, Markdown, MarkdownElement
from rich.segment import Segment

from toolrun.cli.output import terminal_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, RenderResult

_THEME: Final = "ansi_dark"
"""The colours of code: those of the terminal, on its own background."""
_GROWTH: Final = 16
"""A block is parsed again when it has grown by this part of itself, so that a long one is not parsed for each line."""
_LISTS: Final = ("bullet_list_open", "ordered_list_open")
_ONE_LINE: Final = ("heading_open", "hr")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE_INDENT: Final = 3
"""Blanks before the end of a block of code, at most."""


@dataclass(frozen=True, slots=True)
class Block:
    """A finished part of an answer."""

    text: str
    continues: bool = False
    """Whether it is one more item of the list before it."""


class MarkdownBlocks:
    """Cuts an answer that arrives in pieces into finished blocks: paragraphs, tables, code, items of lists."""

    def __init__(self) -> None:
        self._rest = ""
        self._parse_at = 0
        self._is_in_list = False

    @property
    def unfinished(self) -> str:
        """What has arrived of the block that is not finished."""
        return self._rest

    def feed(self, piece: str) -> list[Block]:
        """The blocks that are finished now."""
        self._rest += piece
        if "\n" not in piece or len(self._rest) < self._parse_at:
            return []
        whole = self._rest[: self._rest.rindex("\n") + 1]
        blocks, end = self._cut(whole)
        self._rest = self._rest[end:]
        self._parse_at = len(self._rest) + len(self._rest) // _GROWTH
        return blocks

    def end(self) -> list[Block]:
        """The rest: nothing more arrives."""
        blocks, end = self._cut(self._rest)
        last = self._rest[end:]
        if last.strip():
            blocks.append(Block(last, self._is_in_list))
        self._rest, self._parse_at, self._is_in_list = "", 0, False
        return blocks

    def _cut(self, text: str) -> tuple[list[Block], int]:
        """The finished blocks of a text of whole lines, and where the first one that is not begins."""
        lines = _LINE.findall(text)  # not `splitlines`, which knows more ends of lines than Markdown does
        blocks: list[Block] = []
        done = 0
        parts = list(_parts(_tokens(text)))
        for index, part in enumerate(parts):
            is_last = index == len(parts) - 1
            if is_last and not _is_finished(part, lines):
                break
            end = len(lines) if is_last else parts[index + 1].start
            blocks.append(Block("".join(lines[done:end]), part.is_item and self._is_in_list))
            self._is_in_list = part.is_item and not part.is_list_end
            done = end
        return blocks, len("".join(lines[:done]))


@dataclass(frozen=True, slots=True)
class _Part:
    """A block of the outermost level, or an item of a list there: from one line to before another."""

    kind: str
    start: int
    end: int
    markup: str = ""
    is_item: bool = False
    is_list_end: bool = False


def _parts(tokens: Iterable[Token]) -> Iterator[_Part]:
    items: list[_Part] | None = None
    for token in tokens:
        start, end = token.map or (0, 0)
        if items is not None and token.level == 1 and token.type == "list_item_open":
            items.append(_Part(token.type, start, end, is_item=True))
        elif items is not None and token.level == 0:
            yield from items[:-1]
            yield from (replace(it, is_list_end=True) for it in items[-1:])
            items = None
        elif token.level == 0 and token.type in _LISTS:
            items = []
        elif token.level == 0 and token.nesting >= 0:
            yield _Part(token.type, start, end, markup=token.markup)


def _is_finished(part: _Part, lines: list[str]) -> bool:
    """Whether the last block of the whole lines cannot go on."""
    if part.kind in _ONE_LINE:
        return True
    if part.kind == "fence":
        last = lines[part.end - 1].rstrip()
        fence = last.lstrip(" ")
        is_fence = fence.startswith(part.markup) and not fence.strip(part.markup[0])
        return part.end - part.start > 1 and is_fence and len(last) - len(fence) <= _FENCE_INDENT
    return part.kind in ("paragraph_open", "table_open") and part.end < len(lines)


def _tokens(text: str) -> list[Token]:
    return Markdown(text).parsed


class _Heading(Heading):
    """A heading at the left, where the text is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


class RenderedMarkdown:
    """A block as rich shows it, but harmless, and without blank lines around it."""

    def __init__(self, text: str) -> None:
        self._markdown = _Markdown(text, code_theme=_THEME, hyperlinks=False)
        for token in self._markdown.parsed:
            _keep_what_was_said(token)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rendered = console.render_lines(self._markdown, options, pad=False)
        lines = [_without_blank_end([_harmless(it) for it in line]) for line in rendered]
        while lines and not lines[0]:
            lines.pop(0)
        while lines and not lines[-1]:
            lines.pop()
        for line in lines:
            yield from line
            yield Segment.line()


def _harmless(segment: Segment) -> Segment:
    return Segment(terminal_safe(segment.text), segment.style.update_link(None) if segment.style else None)


def _without_blank_end(line: Sequence[Segment]) -> list[Segment]:
    """The line without what rich fills it with, so that nobody copies it."""
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return [*kept[:-1], *(Segment(it.text.rstrip(), it.style) for it in kept[-1:])]


def _keep_what_was_said(token: Token) -> None:
    """What rich would leave out or join: tags of HTML, the addresses of images, the ends of lines."""
    for child in token.children or ():
        _keep_what_was_said(child)
    match token.type:
        case "html_inline":
            token.type = "text"
        case "html_block":
            token.type = "code_block"
        case "softbreak":
            token.type = "hardbreak"
        case "image":
            token.type, token.tag, token.children = "text", "", None
            token.content = f"{token.content} ({token.attrs.get('src', '')})"
