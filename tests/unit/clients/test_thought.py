"""Thoughts that templates leave in the text: none of them is taken for the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.clients.thought import without_thoughts

PAIRS = [
    ("<think>", "</think>"),
    ("<THINKING>", "</THINKING>"),
    ("<seed:think>", "</seed:think>"),
    ("<reasoning effort='low'>", "</reasoning>"),
    ("◁think▷", "◁/think▷"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    (
        "<|start|>assistant<|channel|>commentary to=x <|constrain|>json<|message|>",
        "<|call|><|channel|>final<|message|>",
    ),
    ("analysis", "assistantfinal"),
]
WORDS = st.text("ab \n`*", max_size=20)


@pytest.mark.parametrize(("begin", "end"), PAIRS, ids=[begin for begin, _ in PAIRS])
@given(WORDS, WORDS)
def test_what_stands_between_the_marks_is_left_out(begin: str, end: str, thought: str, answer: str) -> None:
    assert without_thoughts(f"{begin}x{thought}x{end}y{answer}y").split() == f"y{answer}y".split()


@pytest.mark.parametrize("begin", [begin for begin, _ in PAIRS if begin != "analysis"])
def test_a_thought_that_never_ends_is_no_answer(begin: str) -> None:
    assert without_thoughts(f"{begin}I wonder").strip() == ""


@pytest.mark.parametrize("text", ["", "Yes.", "`<think>` is a tag.", "a < b > c", "The analysis is done.", "<|x|>"])
def test_an_answer_stays_as_it_is(text: str) -> None:
    assert without_thoughts(text) == text
