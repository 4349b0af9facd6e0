"""Words for people and models: what may be shown of a value, what may have been meant, one or many. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

_CONTROL: Final = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_BLANKS: Final = frozenset("\xa0\u2009\u202f\u3000")
"""Spaces that people write: not printable for Python, but harmless."""
_SEPARATORS: Final = str.maketrans("", "", "_- ")
_ALIKE: Final = 0.65
"""How alike names must be to be taken for each other: `qury` and `query` are 0.89."""
_MAX_SHOWN_NAME: Final = 200
MAX_COMPARING: Final = 1_000_000
"""The effort of comparing names at most, about 30 ms."""
_ANY_NAME: Final = 8
"""What a name costs beside its letters."""
_MAX_FOLDED: Final = 200
"""Letters of a name that are looked at in any case."""
name_of: Final[Callable[[type], Any]] = type.__dict__["__name__"].__get__
"""The name of a class, without asking its metaclass, which may answer anything."""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def cut(text: str, limit: int) -> str:
    """The text in at most `limit` characters, of which the last says if there were more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def show(value: object, limit: int = 80) -> str:
    """The value as JSON for people, cut to `limit` characters. Safe to encode whatever the value holds.

    No code of the value itself runs: a caller may send an object that answers nothing, and raises anything.
    """
    text = ""
    encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False)
    try:
        for chunk in encoder.iterencode(_beginning(value, [limit + 1])):
            text += chunk[: limit + 1]
            if len(text) > limit:
                text = cut(text, limit)
                break
    except ValueError:  # an integer of more than 4300 digits
        text = f"{text[: limit - 1]}…"
    return printable(text)


def printable(text: str) -> str:
    """The text with lone surrogates escaped: they cannot be encoded."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def is_encodable(text: str) -> bool:
    """Whether the text has no lone surrogates."""
    return text.isascii() or printable(text) == text


def visible(text: str) -> str:
    """One line in which control characters are escaped."""
    if text.isprintable():
        return text
    return re.sub(_CONTROL, lambda found: _escape(found[0]), text).replace("\n", "\\n")


def shown_name(name: object) -> str:
    """The name of a tool, as far as it can be shown: a caller may send anything."""
    if type(name) is not str:
        return show(name)
    short = cut(name, _MAX_SHOWN_NAME)
    return short if short.isascii() else printable(short)


def one_line(text: str) -> str:
    """One line of printable characters: everything else is escaped, also what is invisible or cannot be encoded."""
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() or it in _BLANKS else _escape(it) for it in text)


def logged(text: str, limit: int) -> str:
    """One line as it stands in a log. Of a text that is longer than the limit, the beginning and its length."""
    return one_line(text) if len(text) <= limit else f"{one_line(text[:limit])}… ({len(text):,} characters)"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def section(*names: str) -> str:
    """The header of a section, as toolrun.toml needs it: `[tool.weather]`, `[tool."home.lights"]`."""
    return (
        f"[{'.'.join(name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False) for name in names)}]"
    )


def plural(count: int, thing: str) -> str:
    """`1 tool`, `2 tools`, `2 properties`."""
    if count == 1:
        return f"{count} {thing}"
    return f"{count} {thing[:-1]}ies" if thing.endswith("y") else f"{count} {thing}s"


def comparing(names: Iterable[str], known: Iterable[str]) -> int:
    """The effort of comparing all of these names with all of those, letter by letter: the product of their lengths."""
    return sum(len(it) + _ANY_NAME for it in names) * sum(len(it) + _ANY_NAME for it in known)


def close_names(name: str, known: Iterable[str], limit: int = 3, effort: int = MAX_COMPARING) -> list[str]:
    """The known names that `name` may be a misspelling of, the likeliest first. Case, `_`, `-` and spaces do not count.

    A name that differs in nothing else is the only one. If to compare them takes more than `effort`, no other is found.
    """
    possible = [other for other in known if len(other) <= 4 * len(name) + _MAX_FOLDED]  # no longer one is alike
    is_affordable = comparing([name], possible) <= effort
    if not is_affordable and len(name) > _MAX_FOLDED:
        return []
    folded: dict[str, list[str]] = {}
    for other in possible:
        folded.setdefault(_folded(other), []).append(other)
    wanted = _folded(name)
    if wanted in folded:
        return folded[wanted][:limit]
    if not is_affordable:
        return []
    from difflib import get_close_matches  # not needed until something is refused

    close = get_close_matches(wanted, folded, n=limit, cutoff=_ALIKE)
    return [other for match in close for other in folded[match]][:limit]


def suggestion(name: str, known: Iterable[str], *, limit: int = 1) -> str:
    """What may have been meant by an unknown name, as the end of a sentence."""
    names = sorted(known)
    close = close_names(name, names, limit)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"known are {', '.join(names)}" if names else "none are known"


def _folded(name: str) -> str:
    return name.translate(_SEPARATORS).casefold()


def _beginning(value: Any, room: list[int]) -> object:
    """As much of a value as fits into so many characters, as JSON data."""
    room[0] -= 1
    kind, most = type(value), room[0] + 1
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        return str.__getitem__(value, slice(most + 1))
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, dict):
        members = islice(dict.items(value), most)
        return {key: _beginning(item, room) for key, item in members if _is_key(key) and room[0] > 0}
    if issubclass(kind, list | tuple):
        items = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        return [_beginning(item, room) for item in islice(items, most) if room[0] > 0]
    return _described(value)


def _is_key(key: object) -> bool:
    """Whether JSON can write it."""
    kind = type(key)
    return key is None or kind is str or kind is int or kind is float or kind is bool


def _described(value: object) -> str:
    """Dates, which TOML has, as they are written; of anything else that JSON has no form for, its type."""
    kind = type(value)
    return str(value) if type(kind) is type and kind.__module__ == "datetime" else f"<{name_of(kind)}>"
