"""Guesses the pronunciation of English words that are in no dictionary, in the 39 phones of the CMU dictionary. Pure.

A rough guess will do: the engine only has to tell the word from the other words of a small grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Final

Lookup = Callable[[str], str | None]
"""The entry of a dictionary, as phones with spaces between them."""

_SHORTEST_PART: Final = 3
_LONGEST_SPELLED: Final = 4
_VOICELESS: Final = frozenset({"P", "T", "K", "F", "TH"})
_HISSING: Final = frozenset({"S", "Z", "SH", "ZH", "CH", "JH"})


def pronounce(word: str, lookup: Lookup) -> str | None:
    """The dictionary's entry, or the best guess; None for what is not written in Latin letters."""
    known = lookup(word)
    if known:
        return known
    if not re.fullmatch(r"[a-z]+(?:'[a-z]+)*", word):
        return None
    letters = word.replace("'", "")
    return _plural(letters, lookup) or _compound(letters, lookup) or _spelled(letters) or _by_letters(letters)


def _plural(word: str, lookup: Lookup) -> str | None:
    stem = lookup(word[:-1]) if word.endswith("s") and len(word) > _SHORTEST_PART else None
    if not stem:
        return None
    last = stem.split()[-1]
    return f"{stem} {'IH Z' if last in _HISSING else 'S' if last in _VOICELESS else 'Z'}"


def _compound(word: str, lookup: Lookup) -> str | None:
    """Two words of the dictionary written as one, the first as long as possible."""
    for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        first, second = lookup(word[:cut]), lookup(word[cut:])
        if first and second:
            return f"{first} {second}"
    return None


def _spelled(word: str) -> str | None:
    """An abbreviation, letter by letter: short, and without a vowel."""
    if len(word) > _LONGEST_SPELLED or re.search("[aeiouy]", word):
        return None
    names, _ = _tables()
    return " ".join(names[letter] for letter in word)


def _by_letters(word: str) -> str:
    """By the sounds that letters and groups of letters usually have, the longest group first."""
    _, sounds = _tables()
    longest = max(map(len, sounds))
    text, phones, at = f"{word}$", [], 0
    while at < len(text):
        group = next(text[at : at + size] for size in range(longest, 0, -1) if text[at : at + size] in sounds)
        phones += sounds[group].split()
        at += len(group)
    doubled = [phone for before, phone in zip(["", *phones], phones, strict=False) if phone != before]
    return " ".join(doubled or [sounds["e"]])


@cache
def _tables() -> tuple[dict[str, str], dict[str, str]]:
    """The names of the letters, and the sounds of groups of letters; `$` is the end of the word."""
    text = resources.files("toolrun.voice.speech").joinpath("letters.txt").read_text(encoding="utf-8")
    tables: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for line in text.splitlines():
        table, _, rest = line.partition(" ")
        if table in ("name", "sound"):
            group, _, phones = rest.partition(" ")
            tables[table == "sound"][group] = phones.strip()
    return tables
