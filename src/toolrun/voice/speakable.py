"""What a model writes, as text that can be spoken: markdown becomes sentences. Pure.

Models write markdown also when they are asked not to, and a voice would read its stars and bars aloud. Meaning is kept:
a link is its words, a row of a table is a sentence, `21.5 °C` is 21.5 degrees Celsius. Code is only named.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from toolrun.clients.thought import without_thoughts

_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_RULE: Final = re.compile(r" {0,3}([-*_=])(?:[ \t]*\1){2,}[ \t]*")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]+|$)")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+•‣◦]|(\d{1,9})[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE: Final = re.compile(r"[ \t]*(?:>[ \t]?)+")
_DIVIDER: Final = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_CODE_SPOKEN: Final = "There is some code, which I do not read aloud."

# In this order: what is found first is gone for the later ones.
_INLINE: Final = (
    (re.compile(r"<!--.{0,1000}?-->"), " "),
    (re.compile(r"!\[([^][]*)\]\([^()]*\)"), r"\1"),  # image
    (re.compile(r"\[([^][]+)\]\([^()]*(?:\([^()]*\)[^()]*)*\)"), r"\1"),  # link
    (re.compile(r"\[\^?\d{1,3}\]"), ""),  # footnote
    (re.compile(r"\[([^][]+)\]\[[^][]*\]"), r"\1"),  # link by reference
    (re.compile(r"<(?:https?://|mailto:)[^<>\s]+>"), "a link"),
    (re.compile(r"\bhttps?://[^\s<>()\[\]]*[^\s<>()\[\].,;:!?\"']"), "a link"),
    (re.compile(r"</?[A-Za-z][^<>]{0,200}>"), " "),  # HTML
    (re.compile(r"(`+)[ ]?(.+?)[ ]?\1"), r"\2"),  # code
    (re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~])"), r"\1"),  # escaped
    (re.compile(r"(\*\*\*|\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=\S)([^_]+?)(?<=\S)_(?!\w)"), r"\1"),
)

_NUMBER: Final = r"(?<=\d)[ \u00a0\u202f]?"
_UNITS: Final = tuple(
    (re.compile(_NUMBER + pattern), f" {words}")
    for pattern, words in (
        (r"°[ ]?C\b", "degrees Celsius"),
        (r"°[ ]?F\b", "degrees Fahrenheit"),
        (r"°", "degrees"),
        (r"%", "percent"),
        (r"k[wW]h\b", "kilowatt hours"),
        (r"W[hH]\b", "watt hours"),
        (r"k[wW]\b", "kilowatts"),
        (r"W\b", "watts"),
        (r"V\b", "volts"),
        (r"A\b", "amperes"),
        (r"hPa\b", "hectopascals"),
        (r"(?:lx|lux)\b", "lux"),
        (r"km/h\b", "kilometres per hour"),
        (r"mph\b", "miles per hour"),
        (r"m/s\b", "metres per second"),
        (r"km\b", "kilometres"),
        (r"cm\b", "centimetres"),
        (r"mm\b", "millimetres"),
        (r"kg\b", "kilograms"),
        (r"dB\b", "decibels"),
        (r"ppm\b", "parts per million"),
    )
)
_SIGNS: Final = (
    (re.compile(r"(?<=\d)[ ]?[–—][ ]?(?=\d)"), " to "),
    (re.compile(r"(?<![\w.,)])[-−](?=\d)"), "minus "),
    (re.compile(r"(?<=[\w)])\s*[–—]\s*"), ", "),
    (re.compile(r"\s+[&]\s+"), " and "),
    (re.compile(r"\s*(?:→|->|=>|⇒)\s*"), " to "),
    (re.compile(r"\s*≈\s*"), " about "),
    (re.compile(r"\s*±\s*"), " plus or minus "),
    (re.compile(r"(?<=\d)\s*[×*]\s*(?=\d)"), " times "),
    (re.compile(r"(?<=\d)\s*<\s*(?=\d)"), " is less than "),
    (re.compile(r"(?<=\d)\s*>\s*(?=\d)"), " is more than "),
    (re.compile(r"\s+=\s+"), " is "),
    (re.compile(r"€\s?(\d[\d.,]*\d|\d)"), r"\1 euros"),
    (re.compile(r"\$\s?(\d[\d.,]*\d|\d)"), r"\1 dollars"),
    (re.compile(r"…"), "..."),
)
_SILENT: Final = frozenset("*_`~#|<>{}[]\\^•·●■▪︎")
_DROPPED: Final = frozenset({"So", "Sk", "Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Me"})
"""Categories of characters that nobody says: pictures, modifiers, control characters, lone accents and joiners."""


def speakable(markdown: str) -> str:
    """The text without markup, in sentences, on one line."""
    sentences: list[str] = []
    paragraph: list[str] = []
    said = without_thoughts(unicodedata.normalize("NFC", markdown))
    for line in [*_without_code(said.splitlines()), ""]:
        quoted = _QUOTE.match(line)
        content = line[quoted.end() :] if quoted else line
        starts, ends, text = _read_line(content)
        if starts or not text:
            _finish(paragraph, sentences)
        if text:
            paragraph.append(text)
        if ends:
            _finish(paragraph, sentences)
    return " ".join(sentences)


def _without_code(lines: Iterable[str]) -> list[str]:
    """The lines, each block of code replaced by a sentence; tables made into lines of text."""
    kept: list[str] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            continue
        if mark and "`" not in line[mark.end() :]:
            fence = mark[1]
            kept += ["", _CODE_SPOKEN, ""]
        else:
            kept.append(line)
    return _tables_read(kept)


def _tables_read(lines: list[str]) -> list[str]:
    """Rows of tables as lists of what stands in their columns: `Name: Switch One, State: on`."""
    kept: list[str] = []
    heads: list[str] | None = None
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if heads is None and "|" in line and "|" in following and _DIVIDER.fullmatch(following.strip()):
            heads = _cells(line)
            kept.append("")
        elif heads is not None and _DIVIDER.fullmatch(line.strip()):
            continue
        elif heads is not None and "|" in line:
            pairs = zip(heads, _cells(line), strict=False)
            kept += [", ".join(f"{head}: {cell}" if head else cell for head, cell in pairs if cell), ""]
        else:
            heads = None
            kept.append(line)
    return kept


def _cells(row: str) -> list[str]:
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _read_line(line: str) -> tuple[bool, bool, str]:
    """Whether a line begins a sentence, whether it ends one, and what it says."""
    if not line.strip() or _RULE.fullmatch(line):
        return True, True, ""
    heading = _HEADING.match(line)
    if heading:
        return True, True, line[heading.end() :].rstrip("# \t")
    item = _ITEM.match(line)
    if item:
        return True, False, f"{item[1]}. {line[item.end() :]}" if item[1] else line[item.end() :]
    return False, False, line


def _finish(paragraph: list[str], sentences: list[str]) -> None:
    """Ends a sentence as it would be spoken: with a full stop, unless it already has an end."""
    text = _plain(" ".join(paragraph))
    paragraph.clear()
    if not any(character.isalnum() for character in text):
        return
    text = text.rstrip(" ,;")
    sentences.append(text if re.search(r"[.!?:][\"'”’)]*$", text) else f"{text}.")


def _plain(text: str) -> str:
    text = " ".join(text.split())
    for pattern, words in _INLINE:
        text = pattern.sub(words, text)
    text = html.unescape(text)
    for pattern, words in (*_UNITS, *_SIGNS):
        text = pattern.sub(words, text)
    text = "".join(" " if _is_silent(character) else character for character in text)
    text = re.sub(r"\(\s*\)", " ", text)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s+([.,;:!?])(?=\s|$)", r"\1", text)


def _is_silent(character: str) -> bool:
    return character in _SILENT or (not character.isascii() and unicodedata.category(character) in _DROPPED)
