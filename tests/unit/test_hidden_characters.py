"""What people do not see: recognised, shown, and removed for models, without breaking what writing needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.hidden_characters import has_hidden, reveal, without_hidden

KINDS = {
    "tags": "\U000e0049\U000e0067\U000e007f\U000e0001",
    "zero-width": "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u034f",
    "bidirectional": "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "controls": "\x00\x07\x08\x0b\x0c\x1b\x7f\x85\x9b\x9f",
    "carriage return": "\r",
    "selectors": "\U000e0100\U000e01ef",
    "annotations": "\ufff9\ufffa\ufffb",
    "invisible operators": "\u2061\u2062\u2063\u2064\u206a\u206f",
    "fillers": "\u115f\u1160\u3164\uffa0\u17b4\u17b5",
}


@pytest.mark.parametrize("character", [it for kind in KINDS.values() for it in kind], ids=ascii)
def test_each_hidden_character_is_shown_to_people_and_removed_for_models(character: str) -> None:
    text = f"before{character}after"
    assert has_hidden(text)
    assert reveal(text) == f"before<U+{ord(character):04X}>after"
    assert without_hidden(text) in (
        "beforeafter",
        "beforefter",
    )  # ESC a is an escape sequence, of which no part is left


@pytest.mark.parametrize(
    "text",
    [
        "plain text, äöü, 日本語, עברית",
        "lines\nand\ttabs\r\nof Windows",
        "families 👩‍👩‍👧 and flags 🏳️‍🌈",
        "a burning heart ❤️‍🔥 and a man with dark skin 👨🏿‍🚀",
        "می‌خواهم",
        "क्‍ष and র‍্য",
        "ශ්‍රී",
        "non-breaking\xa0and narrow\u202fspaces\u3000",
    ],
)
def test_what_writing_needs_stays(text: str) -> None:
    assert not has_hidden(text)
    assert without_hidden(text) == text
    assert reveal(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\u200db", "ab"),
        ("👩\u200d\u200d👩", "👩👩"),
        ("👩\u200d says", "👩 says"),
        ("می\u200c\u200cخواهم", "میخواهم"),
        ("\u061c\u200c\u061c", ""),
        ("x\ufe0f\ufe0e\ufe00", "x\ufe0f"),
        ("\ufe0fx", "x"),
        (" \ufe01", " "),
    ],
)
def test_what_writing_needs_is_hidden_elsewhere(text: str, clean: str) -> None:
    assert has_hidden(text)
    assert without_hidden(text) == clean


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[31m",
        "\x1b[2J",
        "\x9b1;2H",
        "\x1b]0;a title\x07",
        "\x1b]8;;http://example.com\x1b\\",
        "\x1bPq\x1b\\",
        "\x1b(B",
        "\x1bc",
    ],
)
def test_escape_sequences_are_removed_whole(sequence: str) -> None:
    assert without_hidden(f"a{sequence}b") == "ab"
    assert "\x1b" not in reveal(sequence)


def test_line_separators_become_newlines() -> None:
    assert without_hidden("one\u2028two\u2029three") == "one\ntwo\nthree"


def test_what_an_escape_sequence_kept_apart_is_removed_as_well() -> None:
    assert without_hidden("x" + "\x1b[m\ufe0f" * 5) == "x\ufe0f"


@given(st.text(alphabet=st.sampled_from(list("aم👩 \n" + "".join(KINDS.values()) + "\ufe0f\ufe00[m]\\")), max_size=30))
def test_nothing_hidden_is_left_and_nothing_is_done_twice(text: str) -> None:
    clean = without_hidden(text)
    assert not has_hidden(clean)
    assert without_hidden(clean) == clean
    assert not has_hidden(reveal(text))
