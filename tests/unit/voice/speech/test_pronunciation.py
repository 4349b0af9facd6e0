"""How words are pronounced that are in no dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.voice.speech.pronunciation import pronounce

DICTIONARY = {"lamp": "L AE M P", "night": "N AY T", "stand": "S T AE N D", "bus": "B AH S", "door": "D AO R"}
VOWELS = {"AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"}
CONSONANTS = {
    *("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N"),
    *("NG", "P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH"),
}


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("lamp", "L AE M P"),
        ("lamps", "L AE M P S"),
        ("doors", "D AO R Z"),
        ("door's", "D AO R Z"),
        ("buss", "B AH S IH Z"),
        ("nightlamp", "N AY T L AE M P"),
        ("nightstand", "N AY T S T AE N D"),
        ("tv", "T IY V IY"),
        ("zwave", "Z W EY V"),
        ("shelly", "SH EH L IY"),
        ("sonoff", "S AA N AA F"),
        ("philips", "F IH L IH P S"),
        ("quirk", "K W ER K"),
    ],
)
def test_a_word_has_the_pronunciation_that_people_give_it(word: str, phones: str) -> None:
    assert pronounce(word, DICTIONARY.get) == phones


@pytest.mark.parametrize("word", ["кухня", "küche", "a1", "", "two words", "'"])
def test_what_is_not_written_in_latin_letters_has_none(word: str) -> None:
    assert pronounce(word, DICTIONARY.get) is None


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=30))
def test_every_word_of_letters_has_phones_that_the_engine_knows(word: str) -> None:
    found = pronounce(word, DICTIONARY.get)
    assert found
    assert set(found.split()) <= VOWELS | CONSONANTS
