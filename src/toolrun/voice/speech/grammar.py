"""Builds the grammar of all commands from the names of devices and phrases.

A phrase has words, `[optional]` parts, choices `(of | these)`, `{device}` for any device and `{number}` for 0 to 100:

    turn (on | off) [the] {device}

The result is text in JSGF (the JSpeech Grammar Format) for an engine, and `Grammar.written`, which turns the words that
the engine heard into a sentence with the devices' names as they are written and numbers as digits. Pure: the caller's
function knows the pronunciation of words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from toolrun.errors import ConfigError

Pronounce = Callable[[str], str | None]
"""The pronunciation of a word in the phones of the engine; None if it is unknown."""

_TOKEN: Final = re.compile(r"\s*(\{\w*\}|[][()|]|[^\W_]+(?:['’][^\W_]+)*|\S)")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CLOSING: Final = {"[": "]", "(": ")"}
_ONES: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


@dataclass(frozen=True, slots=True)
class Grammar:
    """All sentences that the engine can recognise."""

    jsgf: str
    pattern: re.Pattern[str] = field(repr=False)
    """Of a complete sentence, each word followed by a space. Groups d0, d1, … are devices, n0, … numbers."""
    pronunciations: Mapping[str, str]
    """Of all its words."""
    devices: Mapping[str, str]
    """Spoken name → written name."""
    problems: tuple[str, ...] = ()
    """Why some devices and phrases are left out, one message each."""

    def written(self, heard: str) -> str:
        """The sentence as it is written; empty if it is not a complete sentence of this grammar."""
        text = " ".join(heard.split()) + " "
        found = self.pattern.fullmatch(text)
        if found is None:
            return ""
        spans = sorted((found.span(name), name[0]) for name, value in found.groupdict().items() if value)
        parts, end = [], 0
        for (start, stop), group in spans:
            spoken = text[start:stop].strip()
            parts += [text[end:start], self.devices[spoken] if group == "d" else str(_VALUES[spoken]), " "]
            end = stop
        return " ".join("".join([*parts, text[end:]]).split())


def default_commands() -> tuple[str, ...]:
    """The phrases that ship with toolrun."""
    return read_commands(resources.files("toolrun.voice.speech").joinpath("commands.txt").read_text(encoding="utf-8"))


def read_commands(text: str) -> tuple[str, ...]:
    """One phrase per line; `#` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def make_grammar(devices: Iterable[str], commands: Sequence[str], pronounce: Pronounce) -> Grammar:
    """The grammar of these devices and commands. ConfigError: it would be empty."""
    vocabulary = _Vocabulary(pronounce)
    spoken = vocabulary.devices(devices)
    phrases = [phrase for text in commands if (phrase := vocabulary.phrase(text, spoken)) is not None]
    if not phrases:
        reasons = " ".join(vocabulary.problems)
        raise ConfigError(f"The grammar is empty: give at least one command that can be said. {reasons}".rstrip())
    rules = [f"<command{index}> = {phrase.jsgf};" for index, phrase in enumerate(phrases)]
    if any("<device>" in rule for rule in rules):
        rules.append(f"<device> = {' | '.join(spoken)};")
    if any("<number>" in rule for rule in rules):
        rules.append(f"<number> = {' | '.join(_VALUES)};")
    choice = " | ".join(f"<command{index}>" for index in range(len(phrases)))
    return Grammar(
        "\n".join(["#JSGF V1.0;", "grammar home;", *rules, f"public <said> = {choice};", ""]),
        re.compile("|".join(_numbered([phrase.pattern for phrase in phrases]))),
        vocabulary.known,
        spoken,
        tuple(vocabulary.problems),
    )


def spoken_words(name: str) -> list[str]:
    """How a name is said, word by word: `TV-Lamp_2` is tv lamp two."""
    decomposed = unicodedata.normalize("NFKD", _HUMP.sub(" ", name)).replace("ß", "ss").replace("’", "'")
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    words: list[str] = []
    for word in _WORD.findall(plain.lower()):
        words += spell(word) if word.isdecimal() else [word]
    return words


def spell(digits: str) -> list[str]:
    """A number in words: up to a hundred as a number, everything else digit by digit."""
    value = int(digits)
    if value > 100 or (digits[0] == "0" and len(digits) > 1):
        return [_ONES[int(digit)] for digit in digits]
    if value == 100:
        return ["one", "hundred"]
    if value < 20:
        return [_ONES[value]]
    return [_TENS[value // 10 - 2], *([_ONES[value % 10]] if value % 10 else [])]


_VALUES: Final = {" ".join(spell(str(number))): number for number in range(101)}


@dataclass(frozen=True, slots=True)
class _Phrase:
    jsgf: str
    pattern: str


class _Vocabulary:
    """Reads names and phrases; collects the words with a pronunciation, and the problems."""

    def __init__(self, pronounce: Pronounce) -> None:
        self.known: dict[str, str] = {}
        self.problems: list[str] = []
        self._pronounce = pronounce

    def devices(self, names: Iterable[str]) -> dict[str, str]:
        spoken: dict[str, str] = {}
        for name in names:
            words = spoken_words(name)
            key = " ".join(words)
            if not words:
                self.problems.append(f"The device '{name}' has no name that can be said.")
            elif unknown := self._unknown(words):
                self.problems.append(f"The device '{name}' cannot be said: {unknown}")
            elif key in spoken and spoken[key] != name:
                self.problems.append(
                    f"The devices '{spoken[key]}' and '{name}' sound the same; only the first is known."
                )
            else:
                spoken[key] = name
        return spoken

    def phrase(self, text: str, devices: Mapping[str, str]) -> _Phrase | None:
        """The phrase as JSGF and as a pattern; None, and a problem, if it cannot be recognised."""
        try:
            tokens = _checked(text)
        except ValueError as error:
            self.problems.append(f"The command '{text}' {error}.")
            return None
        if "{device}" in tokens and not devices:
            self.problems.append(f"The command '{text}' needs a device, and none is known.")
            return None
        words = [word for token in tokens for word in spoken_words(token) if token[0] != "{"]
        if "{number}" in tokens:
            words += [*_ONES, *_TENS, "hundred"]
        if unknown := self._unknown(words):
            self.problems.append(f"The command '{text}' cannot be said: {unknown}")
            return None
        return _Phrase(" ".join(map(_in_jsgf, tokens)), "".join(_in_pattern(token, devices) for token in tokens))

    def _unknown(self, words: Iterable[str]) -> str:
        for word in words:
            if word not in self.known:
                phones = self._pronounce(word)
                if not phones:
                    return f"nobody knows how '{word}' is pronounced. Give it a pronunciation, or another name."
                self.known[word] = phones
        return ""


def _checked(text: str) -> list[str]:
    """The tokens of a phrase. ValueError: its syntax is wrong."""
    tokens = _TOKEN.findall(text)
    closers: list[str] = []
    for before, token in zip(["|", *tokens], [*tokens, "|"], strict=True):
        if token[0] == "{" and token not in ("{device}", "{number}"):
            raise ValueError(f"has the unknown place {token}; there are {{device}} and {{number}}")
        if token in ("|", "]", ")") and before in ("|", "[", "("):
            raise ValueError("has a choice with nothing in it")
        if token in ("[", "("):
            closers.append(_CLOSING[token])
        elif token in ("]", ")") and (not closers or closers.pop() != token):
            raise ValueError(f"has a '{token}' without its beginning")
        elif len(token) == 1 and not token.isalnum() and token not in "[]()|":
            raise ValueError(f"has '{token}', which cannot be said")
    if closers:
        raise ValueError(f"lacks a '{closers[-1]}'")
    return tokens


def _in_jsgf(token: str) -> str:
    return token.replace("{", "<").replace("}", ">") if token[0] == "{" else token if token in "[]()|" else _said(token)


def _in_pattern(token: str, devices: Mapping[str, str]) -> str:
    match token:
        case "[" | "(":
            return "(?:"
        case "]":
            return ")?"
        case ")" | "|":
            return token
        case "{device}":
            return f"(?P<d>{_any_of(devices)})"
        case "{number}":
            return f"(?P<n>{_any_of(_VALUES)})"
    return f"{re.escape(_said(token))} "


def _said(token: str) -> str:
    return " ".join(spoken_words(token))


def _any_of(spoken: Iterable[str]) -> str:
    return "|".join(f"{re.escape(it)} " for it in spoken)


def _numbered(patterns: Iterable[str]) -> list[str]:
    """The patterns with numbered groups: a name may occur only once in a regular expression."""
    counter = iter(range(1_000_000))
    return [re.sub(r"\(\?P<([dn])>", lambda found: f"(?P<{found[1]}{next(counter)}>", pattern) for pattern in patterns]
