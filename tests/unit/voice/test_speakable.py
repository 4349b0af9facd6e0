"""Markdown becomes text that can be spoken."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.voice.speakable import speakable


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Switch One is on.", "Switch One is on."),
        ("Switch One is on", "Switch One is on."),
        ("**Done!** The *hall* light is __off__ and ~~on~~.", "Done! The hall light is off and on."),
        ("# Status\n\n## Kitchen ##\nIt is warm.", "Status. Kitchen. It is warm."),
        ("Lights:\n\n- hall\n- `kitchen`\n* **cellar**", "Lights: hall. kitchen. cellar."),
        ("1. Open it\n2) Close it.", "1. Open it. 2. Close it."),
        ("- [x] hall\n- [ ] cellar", "hall. cellar."),
        ("- a long\n  item\n- next", "a long item. next."),
        ("One line\nand the next  \nof one sentence.\n\nAnother", "One line and the next of one sentence. Another."),
        ("> It is on.\n>\n> > Really?", "It is on. Really?"),
        ("See [the manual](https://example.org/a_(b)?c=d) now.", "See the manual now."),
        ("See [the manual][1] and ![a plan](plan.png).", "See the manual and a plan."),
        ("At https://example.org/x?y=1, or <https://a.example>.", "At a link, or a link."),
        ("Built in 1961[1][^2].", "Built in 1961."),
        (
            "Run:\n\n```sh\nrm -rf / | tee *\n```\n\nThen wait.",
            "Run: There is some code, which I do not read aloud. Then wait.",
        ),
        ("```\nnever closed", "There is some code, which I do not read aloud."),
        ("Set `level = 5` first", "Set level is 5 first."),
        ("Before\n\n---\n\nAfter", "Before. After."),
        ("<b>Bold</b><br/>line <!-- hidden -->&amp; more &lt;x&gt;", "Bold line and more x."),
        (r"2 \* 3 and \_this\_", "2 times 3 and this."),
        ("snake_case and a*b", "snake case and a b."),
        ("Hello 👋🏽 from 👨‍👩‍👧 ✅ ☀️!", "Hello from!"),
        ("🎉", ""),
        ("  \n\n ---\n", ""),
        ("", ""),
    ],
)
def test_markup_is_not_spoken(written: str, spoken: str) -> None:
    assert speakable(written) == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("It is 21.5 °C and 48% humid.", "It is 21.5 degrees Celsius and 48 percent humid."),
        ("-3°C outside", "minus 3 degrees Celsius outside."),
        ("70°F, 90° wide", "70 degrees Fahrenheit, 90 degrees wide."),
        ("It draws 12 W, 1.5kWh today, 230 V", "It draws 12 watts, 1.5 kilowatt hours today, 230 volts."),
        ("wind 20 km/h, 1013 hPa", "wind 20 kilometres per hour, 1013 hectopascals."),
        ("10–12 days – or so", "10 to 12 days, or so."),
        ("It costs $5.50 or €3", "It costs 5.50 dollars or 3 euros."),
        ("at 10:30 on 2026-11-16", "at 10:30 on 2026-11-16."),
        ("3 × 4 = 12", "3 times 4 is 12."),
        ("5 < 6", "5 is less than 6."),
        ("off → on", "off to on."),
        ("Tom & Ann's A-team; version 1.2.3", "Tom and Ann's A-team; version 1.2.3."),
        ("Wake-up call (soon)", "Wake-up call (soon)."),
        ("naïve café, Küche", "naïve café, Küche."),
    ],
)
def test_numbers_units_and_signs_keep_their_meaning(written: str, spoken: str) -> None:
    assert speakable(written) == spoken


def test_a_table_is_read_row_by_row() -> None:
    table = "Devices:\n\n| Name | **State** |\n|:-----|:---:|\n| Switch One | on |\n| Lamp | 40% |\n| Bell | |\nAll."
    assert speakable(table) == ("Devices: Name: Switch One, State: on. Name: Lamp, State: 40 percent. Name: Bell. All.")


def test_a_table_without_outer_bars_and_with_uneven_rows_is_read() -> None:
    assert speakable("a | b\n--- | ---\n1 | 2 | 3\n4") == "a: 1, b: 2. 4."


@given(st.text(alphabet=st.one_of(st.sampled_from("*_`~#|[]()<>!-=\\\n 1aB.é🎉"), st.characters()), max_size=200))
def test_whatever_is_written_no_markup_is_left(written: str) -> None:
    spoken = speakable(written)
    assert not re.search(r"[*_`~#|<>{}\[\]\\\n]", spoken)
    assert "  " not in spoken
    assert spoken == spoken.strip()
    assert not [it for it in spoken if not it.isascii() and unicodedata.category(it) in ("So", "Cs", "Co", "Cn")]
    assert not spoken or spoken[-1] in ".!?:\"'”’)"


@pytest.mark.parametrize(
    "part",
    [
        "<!--",
        "[x](",
        "`",
        "*a ",
        "** ",
        "_",
        "[a",
        "(a)",
        "https://",
        "1 ",
        "> ",
        "- ",
        "|",
        "\\",
        "<a ",
        "`a``a```a",
        " ",
    ],
)
def test_a_long_text_of_nothing_but_markup_comes_to_an_end(part: str) -> None:
    for long in (part * 5_000, f"a|b\n-|-\n{part * 5_000}", f"[x]({part * 5_000}"):
        assert not re.search(r"[*_`|<>\[\]\\]", speakable(long))


THOUGHT = "secret thought"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (f"<think>{THOUGHT}</think>Yes.", "Yes."),
        (f"<think>\n{THOUGHT}\n\n```\n{THOUGHT}\n```\n</think>\n\nYes.", "Yes."),
        (f"Well. <think>{THOUGHT}</think> Yes.", "Well. Yes."),
        (f"<THINK>{THOUGHT}</THINK>Yes.", "Yes."),
        (f"<thinking>{THOUGHT}</thinking>Yes.", "Yes."),
        (f"<seed:think>{THOUGHT}</seed:think>Yes.", "Yes."),
        (f"◁think▷{THOUGHT}◁/think▷Yes.", "Yes."),
        (f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "Yes."),
        (f'<think duration="3">{THOUGHT}</think>Yes.', "Yes."),
        (f"<think>{THOUGHT} <think>{THOUGHT}</think> {THOUGHT}</think>Yes.", "Yes."),
        (f"<think>{THOUGHT}", ""),
        (f"Yes. <think>{THOUGHT}", "Yes."),
        (f"{THOUGHT}</think>Yes.", "Yes."),
        (f"<think>{THOUGHT}</think>Yes. <think>{THOUGHT}</think>", "Yes."),
        ("I think so, and `<think>` is a tag.", "I think so, and is a tag."),
    ],
)
def test_thoughts_are_not_spoken(written: str, spoken: str) -> None:
    assert speakable(written) == spoken
