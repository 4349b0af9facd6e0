"""How the arguments of a call differ from those that were recorded. Pure: JSON in, words out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from toolrun.json import JSON, dumps
from toolrun.text import show

_MAX_SHOWN: Final = 4
"""Differences that a message lists."""


def key_of(arguments: Mapping[str, JSON]) -> bytes:
    """The same for equal arguments: 2 and 2.0 are one number, 1 and true are two values, order is nothing."""
    return dumps(_canonical(dict(arguments)), sort_keys=True)


def _canonical(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value


def describe_difference(given: Mapping[str, JSON], recorded: Mapping[str, JSON]) -> str:
    """`room is "hall", recorded "office"; brightness was not recorded`."""
    found = list(differences(dict(given), dict(recorded)))
    more = f"; and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    return "; ".join(found[:_MAX_SHOWN]) + more


def differences(given: JSON, recorded: JSON, path: str = "") -> Iterator[str]:
    """Where two values differ, one entry for each place."""
    if isinstance(given, dict) and isinstance(recorded, dict):
        for name in [*given, *(it for it in recorded if it not in given)]:
            below = f"{path}.{name}" if path else name
            if name not in recorded:
                yield f"{below} ({show(given[name], 40)}) was not recorded"
            elif name not in given:
                yield f"{below} is missing, recorded {show(recorded[name], 40)}"
            else:
                yield from differences(given[name], recorded[name], below)
    elif isinstance(given, list) and isinstance(recorded, list) and len(given) == len(recorded):
        for index, (here, there) in enumerate(zip(given, recorded, strict=True)):
            yield from differences(here, there, f"{path}[{index}]")
    elif dumps(_canonical(given), sort_keys=True) != dumps(_canonical(recorded), sort_keys=True):
        yield f"{path} is {show(given, 40)}, recorded {show(recorded, 40)}"
