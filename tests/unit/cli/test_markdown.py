"""An answer in Markdown: cut into finished blocks while it arrives, and harmless on the terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from toolrun.cli.markdown import Block, MarkdownBlocks, RenderedMarkdown

ANSWER = """\
# Title
Some *words*
in two lines.

1. one
2. two
   - nested

3. three
```python
def f():

    return 1
```
| a | b |
|---|---|
| 1 | 2 |

> said
> so

- x
- y
The end, and no line after it"""
PIECES = st.one_of(
    st.sampled_from(["# ", "- ", "1. ", "  ", "> ", "```", "\n", "\n\n", "|a|b|\n|-|-|\n", "*", "`", "---\n", "~~"]),
    st.sampled_from(["[x](http://y)", "![i](z)", "<b>", "word ", "表", "\\"]),
    st.sampled_from(["&#13;", "&#27;", "&#8238;", "&#155;", "\u2028", "\x0b", "\x1b]8;;u\x07"]),
)


def cut(*pieces: str) -> list[list[Block]]:
    """What each piece finishes, and what the end does."""
    blocks = MarkdownBlocks()
    return [*(blocks.feed(piece) for piece in pieces), blocks.end()]


def render(text: str, width: int = 40) -> str:
    """As a terminal without colours gets it."""
    written = io.StringIO()
    Console(file=written, width=width, color_system=None, force_terminal=True).print(RenderedMarkdown(text))
    return written.getvalue()


def test_blocks_are_paragraphs_code_tables_and_items() -> None:
    blocks = [block for finished in cut(ANSWER) for block in finished]
    assert [(block.text.strip().split("\n")[0], block.continues) for block in blocks] == [
        ("# Title", False),
        ("Some *words*", False),
        ("1. one", False),
        ("2. two", True),
        ("3. three", True),
        ("```python", False),
        ("| a | b |", False),
        ("> said", False),
        ("- x", False),
        ("- y", True),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_blocks_do_not_depend_on_the_pieces(size: int) -> None:
    pieces = [ANSWER[start : start + size] for start in range(0, len(ANSWER), size)]
    assert [it for finished in cut(*pieces) for it in finished] == [it for finished in cut(ANSWER) for it in finished]


@pytest.mark.parametrize(
    ("pieces", "finished"),
    [
        (["One", " two.\n", "\n", "Three"], [0, 0, 1, 0, 1]),  # a paragraph with the blank line after it
        (["# One\n", "Two\n"], [1, 0, 1]),  # a heading with its line
        (["```\na\n", "\n", "b\n", "```\n"], [0, 0, 0, 1, 0]),  # code with its end
        (["```\na\n", "    ```\n", "```\n"], [0, 0, 1, 0]),  # which is indented by at most three blanks
        (["- a\n", "- b\n", "\n", "c\n"], [0, 1, 0, 1, 1]),  # an item with the next one, the last with what follows
        (["|a|\n|-|\n", "|1|\n", "\n"], [0, 0, 1, 0]),  # a table with the blank line after it
        (["\n", "\n"], [0, 0, 0]),
    ],
)
def test_a_block_is_finished_when_nothing_can_be_added_to_it(pieces: list[str], finished: list[int]) -> None:
    assert [len(blocks) for blocks in cut(*pieces)] == finished


def test_what_is_not_finished_is_known() -> None:
    blocks = MarkdownBlocks()
    blocks.feed("One.\n\nTwo is on its")
    blocks.feed(" way")
    assert blocks.unfinished == "Two is on its way"


@given(st.lists(PIECES, max_size=30), st.integers(min_value=4, max_value=80))
def test_whatever_a_model_says_is_shown_without_control_characters(pieces: list[str], width: int) -> None:
    blocks = [block for finished in cut(*pieces) for block in finished]
    said = "".join(pieces)
    assert said.startswith("".join(block.text for block in blocks))
    for block in blocks:
        shown = render(block.text, width)
        kinds = {unicodedata.category(character) for character in shown.replace("\n", "")}
        assert not kinds & {"Cc", "Cf"}, shown


def test_what_is_shown_is_what_was_said() -> None:
    assert render("# Title") == "Title\n"
    assert render("one\ntwo  \nthree") == "one\ntwo\nthree\n"
    assert render("A Vec<T> with <b>tags</b>") == "A Vec<T> with <b>tags</b>\n"
    assert render("<div>\n<b>x</b>\n</div>") == " <div>\n <b>x</b>\n </div>\n"
    assert render("[my bank](https://evil.example)") == "my bank (https://evil.example)\n"
    assert render("![a cat](https://pictures.example/1)") == "a cat (https://pictures.example/1)\n"
    assert render("- a\n- **b**") == " • a\n • b\n"
    assert render("2 * 3 * 4, a_b_c") == "2 * 3 * 4, a_b_c\n"
    assert render("a&#8238;b") == "a\\u202eb\n"
    assert render("one&#13;two") == "onetwo\n"
    assert render("```python\ndef f():\n\n    return 1\n```") == " def f():\n\n     return 1\n"
