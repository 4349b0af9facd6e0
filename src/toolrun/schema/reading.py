"""What a text may stand for where something else is wanted: a number, a truth value, null, a list, an object. Pure.

Knows nothing of schemas: which of the readings is wanted, and whether there is only one, is for `repair` to say.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import cast

from toolrun.json import JSON, JSONDecodeError, loads
from toolrun.json_pieces import PIECE, loads_in_pieces
from toolrun.schema.lenient import UnreadableError, read_value
from toolrun.schema.value import MAX_TEXT, is_plain, same
from toolrun.text import printable, shown_name

_NUMBER = re.compile(r"([+-]?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_MAX_DIGITS = 64
_NULLS = ("null", "None")
_YES_NO = {"yes": True, "no": False}
_SEPARATORS = re.compile(r"(?<=[^\W_])[\s_-]+(?=[^\W_])")
"""Between two letters or digits: the sign of `-5` is none."""


class RepeatedKeyError(ValueError):
    """An object has a key twice, with different values: one of them would be lost."""

    def __init__(self, key: str) -> None:
        super().__init__(f"'{printable(shown_name(key))}' is sent twice, with different values: send it once")


def read_json(text: str | bytes | bytearray) -> JSON:
    """The value of a JSON text that has only one. Raises JSONDecodeError and RepeatedKeyError."""
    if len(text) > PIECE:
        return cast(JSON, loads_in_pieces(text, parse=read_json, add=_add))
    value: JSON = loads(text)
    try:
        json.loads(text, object_pairs_hook=_unique)
    except RepeatedKeyError:
        raise
    except (ValueError, RecursionError):  # more digits than Python reads, or nested too deeply: others refuse that
        return value
    return value


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """The object of these keys and values. Raises RepeatedKeyError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if not same(value, found[key]):
                raise RepeatedKeyError(key)
    return found


def _add(found: dict[str, JSON], members: dict[str, JSON]) -> None:
    """Raises RepeatedKeyError, also for a key that comes again with the same large value."""
    for key in found.keys() & members.keys():
        if isinstance(members[key], dict | list) or not same(found[key], members[key]):
            raise RepeatedKeyError(key)
    found.update(members)


def readings(value: JSON, *, is_boolean: bool) -> Iterator[tuple[JSON, str]]:
    """What a text may stand for, each with the reason to record. `is_boolean`: where nothing else is wanted."""
    if not isinstance(value, str):
        return
    yield from scalars(value)
    answer = _YES_NO.get(value.strip().casefold()) if is_boolean else None
    if answer is not None:
        yield answer, "boolean sent as text"
    if value.lstrip()[:1] in ("[", "{") and len(value) <= MAX_TEXT:
        try:
            parsed = read_json(value)
        except RepeatedKeyError:
            return
        except JSONDecodeError:
            try:
                parsed = read_value(value)
            except UnreadableError:
                return
        if is_plain({"": parsed}):
            yield parsed, f"{'list' if isinstance(parsed, list) else 'object'} sent as text"


def folded(option: str) -> str:
    """`In-Progress`, `in_progress` and ` in progress` are the same option."""
    return _SEPARATORS.sub(" ", option.strip().casefold())


def scalars(text: str) -> Iterator[tuple[JSON, str]]:
    text = text.strip()
    number = _number(text)
    if number is not None:
        yield number, "number sent as text"
    if text.lower() in ("true", "false"):
        yield text.lower() == "true", "boolean sent as text"
    if text in _NULLS:
        yield None, "null sent as text"


def _number(text: str) -> int | float | None:
    """The number that a text spells as JSON does, or with a plus. A whole number is an `int`: `"5.0"` is 5."""
    spelled = _NUMBER.fullmatch(text)
    if spelled is None or len(text) > _MAX_DIGITS:
        return None
    whole, fraction, exponent = spelled.groups("")
    if not exponent and not fraction.strip(".0"):
        return int(whole)
    number = float(text)
    has_digits = bool((whole + fraction).strip("+-.0"))
    if not math.isfinite(number) or bool(number) != has_digits:  # beyond what a float holds
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
