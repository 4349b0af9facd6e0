"""JSON that a model wrote almost right: read only where it can mean one thing. Pure.

Asked after a strict reader has refused a text. It takes a trailing comma, the literals and single quotes of Python,
line breaks inside of a text, a byte order mark, and one object in the middle of prose or of a Markdown fence. It adds
nothing: every key and every text of the outcome stands in what was read. Whatever is cut off, or could be read in two
ways, such as a key that comes twice, is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Final

from toolrun.json import JSON
from toolrun.schema.value import MAX_NESTING
from toolrun.text import is_encodable

MAX_CHARS: Final = 1_000_000
_MAX_VALUES: Final = 10_000
"""Values that are read, about 2 µs each."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_TEXT: Final = {
    '"': re.compile(r'"([^"\\\x00-\x08\x0b\x0c\x0e-\x1f]*(?:\\.[^"\\\x00-\x08\x0b\x0c\x0e-\x1f]*)*)"'),
    "'": re.compile(r"'([^'\\\x00-\x1f]*(?:\\.[^'\\\x00-\x1f]*)*)'"),
}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
"""What JSON and Python write for the same character."""
_WORD: Final = re.compile(
    r"[A-Za-z]+\b|-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?(?![\w.])"
)
_LITERALS: Final[dict[str, JSON]] = {
    **{"true": True, "false": False, "null": None},
    **{"True": True, "False": False, "None": None},
}
_FENCE: Final = "```"
_MAX_PROSE: Final = 100_000
"""Characters beside an object: nobody says more."""
_APOSTROPHE: Final = re.compile(r"(?<=\w)'(?=\w)")
"""As in `it's`: no quote."""
_MEMBER: Final = re.compile(
    r"""["'][ \t]*+:|\w[ \t]*+[:=][ \t]*+(?:["'\d+-]|(?:true|false|null|none)\b)""", re.IGNORECASE
)
"""A name with a value, or a name in quotes: a member of an object whose beginning was cut off."""
_NAMED: Final = re.compile(r"\b(\w++)[ \t]*+[:=]")


class UnreadableError(ValueError):
    """A text that has no meaning, or more than one."""


def read_object(text: str, names: Collection[str] = ()) -> dict[str, JSON]:
    """The one object that a text is, spells, or has in the middle of its prose. Raises UnreadableError.

    `names` are those that the object may have: beside it they are no prose.
    """
    text = _checked(text)
    try:
        value = read_value(text)
    except UnreadableError:
        value = _from_prose(text, names)
    if isinstance(value, str):  # the object as a text in quotes
        value = read_value(value)
    if not isinstance(value, dict):
        raise UnreadableError("there is no object")
    return value


def read_value(text: str) -> JSON:
    """The value that the whole text is. Raises UnreadableError."""
    reader = _LenientReader(_checked(text))
    value = reader.value(0)
    reader.skip_space()
    if reader.place < len(reader.text):
        raise UnreadableError("there is more than one value")
    return value


def _checked(text: str) -> str:
    if len(text) > MAX_CHARS or not is_encodable(text):
        raise UnreadableError("the text is too long, or is no text")
    return text.removeprefix("\ufeff").strip()


def _from_prose(text: str, names: Collection[str]) -> JSON:
    """The one object in a text whose rest is words. Anything there that may be a part of the object refuses it."""
    start = text.find("{")
    if start < 0:
        raise UnreadableError("there is no object")
    reader = _LenientReader(text, start)
    value = reader.value(0)
    before, after = text[:start], text[reader.place :]
    around = before + after
    is_cut = (
        len(around) > _MAX_PROSE
        or any(bracket in around for bracket in "{}[]")
        or around.count("(") != around.count(")")
        or around.count('"') % 2 == 1
        or around.count(_FENCE) % 2 == 1
        or after.lstrip().startswith((",", ":"))
        or before.rstrip().endswith((",", "="))
        or before.strip() == ":"
        or _APOSTROPHE.sub("", around).count("'") % 2 == 1
        or _MEMBER.search(around) is not None
        or not set(names).isdisjoint(_NAMED.findall(around))
    )
    if is_cut:
        raise UnreadableError("the object may be a part of something else")
    return value


class _LenientReader:
    """Reads one value, from a place on."""

    def __init__(self, text: str, place: int = 0) -> None:
        self.text = text
        self.place = place
        self._values = 0

    def value(self, depth: int) -> JSON:
        self._values += 1
        if depth > MAX_NESTING or self._values > _MAX_VALUES:
            raise UnreadableError("there is too much in it")
        match self.skip_space():
            case "{":
                return self._object(depth)
            case "[":
                return self._list(depth)
            case '"' | "'":
                return self._text()
            case _:
                return self._word()

    def skip_space(self) -> str:
        """The next character that is not white space; nothing at the end."""
        space = _SPACE.match(self.text, self.place)
        self.place = space.end() if space else self.place
        return self.text[self.place : self.place + 1]

    def _object(self, depth: int) -> JSON:
        found: dict[str, JSON] = {}
        self.place += 1
        while self.skip_space() != "}":
            key = self._text()
            if key in found:
                raise UnreadableError("a key comes twice")
            self._expect(":")
            found[key] = self.value(depth + 1)
            if self.skip_space() != "}":
                self._expect(",")
        self.place += 1
        return found

    def _list(self, depth: int) -> JSON:
        found: list[JSON] = []
        self.place += 1
        while self.skip_space() != "]":
            found.append(self.value(depth + 1))
            if self.skip_space() != "]":
                self._expect(",")
        self.place += 1
        return found

    def _expect(self, sign: str) -> None:
        if self.skip_space() != sign:
            raise UnreadableError(f"there is no '{sign}'")
        self.place += 1

    def _text(self) -> str:
        quote = self.skip_space()
        match = _TEXT[quote].match(self.text, self.place) if quote in _TEXT else None
        if match is None:
            raise UnreadableError("there is no text in quotes")
        self.place = match.end()
        return _unescaped(match[1], quote)

    def _word(self) -> JSON:
        match = _WORD.match(self.text, self.place)
        if match is None:
            raise UnreadableError("there is no value")
        self.place = match.end()
        word = match[0]
        if word in _LITERALS:
            return _LITERALS[word]
        if word[0].isalpha():
            raise UnreadableError("a word is not in quotes")
        try:
            number = float(word) if match["fraction"] or match["exponent"] else int(word)
        except ValueError:
            raise UnreadableError("a number has too many digits") from None
        if isinstance(number, float) and not math.isfinite(number):
            raise UnreadableError("a number is too large")
        return number


def _unescaped(text: str, quote: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "/" and quote == '"':  # in Python this is two characters
            return "/"
        if code not in _ESCAPED:
            raise UnreadableError("an escape is invalid or ambiguous")
        return _ESCAPED[code]

    try:
        return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise UnreadableError("a text holds half a character") from None
