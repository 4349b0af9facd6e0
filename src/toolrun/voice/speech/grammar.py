"""Everything that may be said, made of the names of the devices and of phrases for commands.

A phrase has words, `[optional]` parts, choices `(of | these)`, `{device}` for any device and `{number}` for 0 to 100:

    turn (on | off) [the] {device}

The outcome is text in JSGF (the JSpeech Grammar Format) for an engine, and `Grammar.written`, which turns what the
engine heard back into a sentence with the devices' names as they are written and numbers as digits. Pure: which words
have a pronunciation is for a function to say that the caller gives.
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
"""How a word is pronounced, in the phones of the engine; None if nobody knows."""

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
    """What may be said."""

    jsgf: str
    pattern: re.Pattern[str] = field(repr=False)
    """Of a complete sentence, each word followed by a space. Groups d0, d1, … are devices, n0, … numbers."""
    pronunciations: Mapping[str, str]
    """Of all its words."""
    devices: Mapping[str, str]
    """How a name is spoken → how it is written."""
    problems: tuple[str, ...] = ()
    """Devices and phrases that are left out, each with the reason."""

    def written(self, heard: str) -> str:
        """The sentence as one would write it; empty if it is none of this grammar, or only the beginning of one."""
        text = " ".join(heard.split()) + " "
        found = self.pattern.fullmatch(text)
        if found is None:
            return ""
        spans = sorted((found.span(name), name[0]) for name, value in found.groupdict().items() if value)
        parts, end = [], 0
        for (start, stop), kind in spans:
            spoken = text[start:stop].strip()
            parts += [text[end:start], self.devices[spoken] if kind == "d" else str(_VALUES[spoken]), " "]
            end = stop
        return " ".join("".join([*parts, text[end:]]).split())


def default_commands() -> tuple[str, ...]:
    """The phrases that ship with toolrun."""
    return read_commands(resources.files("toolrun.voice.speech").joinpath("commands.txt").read_text(encoding="utf-8"))


def read_commands(text: str) -> tuple[str, ...]:
    """One phrase a line; `#` begins a remark."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def make_grammar(devices: Iterable[str], commands: Sequence[str], pronounce: Pronounce) -> Grammar:
    """The grammar of these devices and commands. ConfigError: nothing is left that could be said."""
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
    """Reads names and phrases; remembers the words that can be said, and what cannot."""

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
        """The phrase in both forms; None, and a problem, if it cannot be said."""
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
    """The tokens of a phrase. ValueError: it is none."""
    tokens = _TOKEN.findall(text)
    open_ones: list[str] = []
    for before, token in zip(["|", *tokens], [*tokens, "|"], strict=True):
        if token[0] == "{" and token not in ("{device}", "{number}"):
            raise ValueError(f"has the unknown place {token}; there are {{device}} and {{number}}")
        if token in ("|", "]", ")") and before in ("|", "[", "("):
            raise ValueError("has a choice with nothing in it")
        if token in ("[", "("):
            open_ones.append(_CLOSING[token])
        elif token in ("]", ")") and (not open_ones or open_ones.pop() != token):
            raise ValueError(f"has a '{token}' without its beginning")
        elif len(token) == 1 and not token.isalnum() and token not in "[]()|":
            raise ValueError(f"has '{token}', which cannot be said")
    if open_ones:
        raise ValueError(f"lacks a '{open_ones[-1]}'")
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
    """Group names are unique in a pattern."""
    counter = iter(range(1_000_000))
    return [re.sub(r"\(\?P<([dn])>", lambda found: f"(?P<{found[1]}{next(counter)}>", pattern) for pattern in patterns]
