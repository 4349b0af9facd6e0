r"""The ways in which a text may show a secret: as it is, quoted, URL-encoded, in base64, in hexadecimal. Pure.

A way has a needle, which is in every text that shows the secret in this way, so that most texts are cleared by a few
tests with `in`; the pattern that says exactly where it stands is compiled when a needle was found.

    as it is, quoted    each character may be escaped: for JSON, by repr(), in a URL, in HTML (also twice), for a shell
    hexadecimal         lower or upper case
    base64              of a text that has the secret anywhere in it: bytes become other characters in each of the three
                        positions, and the characters at both ends depend on the neighbours. Either alphabet, quoted too

A short secret has short encodings, which are in pictures and checksums by chance: it is found as it is alone.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus

MIN_LENGTH: Final = 4
"""Characters below which a value is not searched for: it would be found everywhere."""
_MIN_BASE64: Final = 6
"""Bytes below which base64 is too short to be distinctive."""
_MIN_NEEDLE: Final = 2
_MIN_LINE: Final = 8
"""Characters of a line that gives a longer secret away: a private key is printed line by line."""
_MIN_PART: Final = 8
"""Characters of a secret that are recognised at the end of a text that was cut."""
_KEPT: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Characters that no way of writing changes."""
_CONTROLS: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a"}
_NAMED: Final = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_QUOTED: Final = "\"'/"
_QUOTING: Final = r"\\{0,8}"
"""The backslashes before a character that needs them in a quoted text."""
_ESCAPE: Final = r"\\{1,8}"
"""The backslashes of an escape: more than one if a quoted text was quoted again."""
_OF_URL: Final = str.maketrans("+/", "-_")
_BASE64_STARTS: Final = (0, 2, 3)
"""Of a secret behind so many other bytes: the first character that depends on the secret alone."""


@dataclass(frozen=True, slots=True)
class SecretForm:
    """One way in which a secret may be shown."""

    needle: str
    pattern: str
    """A regular expression for it."""
    texts: tuple[str, ...] = ()
    """How it is written usually, where the needle is not all of it."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it stands in the text, from left to right; also where it overlaps itself."""
        pattern = re.compile(self.pattern)
        match = pattern.search(text)
        while match is not None:
            yield match.span()
            match = pattern.search(text, match.start() + 1)

    def cut_end(self, text: str) -> int:
        """Where the beginning of the secret stands at the end of the text; the text's length if it does not."""
        return min(_cut_end(whole, text) for whole in self.texts or (self.needle,))

    def cut_start(self, text: str) -> int:
        """Where the end of the secret, with which the text begins, stops; 0 if the text begins with something else."""
        return max(_cut_start(whole, text) for whole in self.texts or (self.needle,))


def _cut_end(whole: str, text: str) -> int:
    at = text.find(whole[:_MIN_PART], max(0, len(text) - len(whole)))
    while at >= 0:
        if len(text) - at >= _MIN_PART and whole.startswith(text[at:]):
            return at
        at = text.find(whole[:_MIN_PART], at + 1)
    return len(text)


def _cut_start(whole: str, text: str) -> int:
    at = text.rfind(whole[-_MIN_PART:], 0, len(whole))
    while at >= 0:
        if len(whole) >= _MIN_PART and whole.endswith(text[: at + _MIN_PART]):
            return at + _MIN_PART
        at = text.rfind(whole[-_MIN_PART:], 0, at + _MIN_PART - 1)
    return 0


def forms_of(secret: str) -> list[SecretForm]:
    """All ways in which a text may show this secret, or a line of it."""
    if len(secret) < MIN_LENGTH:
        return []
    forms = [*_written(secret), *_encoded(secret)]
    if (bare := secret.strip()) != secret and len(bare) >= MIN_LENGTH:
        forms += [*_written(bare), *_encoded(bare)]
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:
        forms += [form for line in lines if len(line) >= _MIN_LINE for form in _written(line)]
    return list(dict.fromkeys(forms))


def _written(secret: str) -> Iterator[SecretForm]:
    """As it is, with any of its characters escaped."""
    needle, texts = max(_KEPT.findall(secret), key=len, default=""), sorted(_texts(secret))
    if len(needle) >= _MIN_NEEDLE:
        yield SecretForm(needle, _pattern(secret), () if needle == secret else tuple(texts))
    else:
        yield from (SecretForm(text, re.escape(text)) for text in texts)


def _texts(secret: str) -> set[str]:
    """How it is written by those who escape all that they must."""
    quoted = json.dumps(secret)[1:-1]
    texts = {secret, quoted, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(quoted)[1:-1], repr(secret)[1:-1]}
    texts |= {html.escape(secret), html.escape(secret, quote=False), _of_html(quoted)}
    clean = secret.encode("utf-8", "replace")
    for url in (quote(clean), quote(clean, safe=""), quote_plus(clean)):
        texts |= {url, re.sub("%..", lambda match: match[0].lower(), url)}
    return texts


def _of_html(quoted: str) -> str:
    """JSON as the encoders of Go and .NET write it, so that it can stand in HTML."""
    return re.sub("[&<>'+]", lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _pattern(secret: str) -> str:
    """All of it. A row of backslashes is one: apart, each could take any of those in a text, in all combinations."""
    rows = re.findall(r"\\+|[^\\]", secret)
    return "".join(_character(it[0]) + (f"{{{len(it)},{16 * len(it)}}}" if it[0] == "\\" else "") for it in rows)


def _character(character: str) -> str:
    """A pattern for a character, also where it is escaped."""
    if _KEPT.fullmatch(character):
        return re.escape(character)
    data = character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    any_case = [
        "".join(f"%(?:25)*{byte:02x}" for byte in data),
        "".join(f"{_ESCAPE}u{pair}" for pair in pairs),
        "".join(f"{_ESCAPE}x{byte:02x}" for byte in data),
        f"{_ESCAPE}(?:U{ord(character):08x}|x{ord(character):02x})",
        f"&(?:amp;)*#(?:0*{ord(character)}|x0*{ord(character):x});",
    ]
    # What may be empty or goes on comes last: the others would be cut short.
    return f"(?:(?i:{'|'.join(any_case)})|{'|'.join(_own_ways(character))})"


def _own_ways(character: str) -> Iterator[str]:
    """How this character is written, in ways that others do not know."""
    if character in _NAMED:
        yield f"&(?:amp;)*{_NAMED[character]};"
    if character in _CONTROLS:
        yield _ESCAPE + _CONTROLS[character]
    if character == " ":
        yield r"\+"
    if character == "'":
        yield from ("""'\"'\"'""", r"'\\''", "''")  # for a shell, for SQL
    if character == "\n":
        yield r"\r?\n[ \t]*"  # YAML indents
    elif character == "\r":
        yield "\r?"
    else:
        yield rf"{_QUOTING if character in _QUOTED else ''}{re.escape(character)}"


def _encoded(secret: str) -> Iterator[SecretForm]:
    data = secret.encode("utf-8", "surrogatepass")
    for digits in (data.hex(), data.hex().upper()):
        yield SecretForm(digits, digits)
    if len(data) < _MIN_BASE64:
        return
    for before, start in enumerate(_BASE64_STARTS):
        bits = 8 * (before + len(data))
        own = base64.b64encode(bytes(before) + data).decode()[start : bits // 6]
        of_url = own.translate(_OF_URL)
        ends = ("[A-Za-z0-9+/_-]?" if before else "", "[A-Za-z0-9+/_-]?" if bits % 6 else "")
        pattern = "".join(f"(?:{it.translate(_OF_URL)}|{_character(it)})" if it in "+/" else it for it in own)
        needle = max(re.findall("[A-Za-z0-9]+", own), key=len, default="")
        yield SecretForm(needle, f"{ends[0]}{pattern}{ends[1]}(?:=|%3[Dd]){{0,2}}", tuple({own, of_url}))
