"""Names of parameters: which one a name was meant for that the schema does not list. Pure; knows no schema.

A name that was meant must not be lost: a tool that is called with `dryRun` for `dry_run` runs for real. So a name that
differs from one parameter only in case, `_` or `-` is that parameter, and one that looks like a parameter is never
taken for a mere extra.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from toolrun.text import MAX_COMPARING, close_names, comparing

_SEPARATORS = str.maketrans("", "", "_-")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_A-Za-z]+")
_MAX_PAIRS = 50_000
"""Pairs of names whose words are compared, less than 200 ns each."""
_MAX_KNOWN = 5_000
"""Parameters that are taken apart into words, about 2 µs each."""
_MAX_NAME = 200
"""Nobody calls a parameter by a longer name than this, give or take a letter."""


def match_names(sent: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """{old: new} of the sent names that differ from exactly one free parameter only in case, `_` and `-`.

    A parameter is free unless it was sent itself. Two names that would be the same parameter are both left alone.
    """
    given = list(sent)
    unknown = _by_fold(name for name in given if name not in known)
    if not unknown:
        return {}
    free = _by_fold(set(known).difference(given), unknown)
    return {
        names[0]: free[fold][0]
        for fold, names in unknown.items()
        if fold and len(names) == 1 and len(free.get(fold, ())) == 1
    }


def lookalikes(unknown: Collection[str], known: Collection[str], effort: int = MAX_COMPARING) -> dict[str, str | None]:
    """{name: parameter} of the unknown names that look like a parameter: misspelt, or with a word more or less.

    Where there is too much to compare, a name may look like one: it is there with `None`.
    """
    if len(unknown) * len(known) > _MAX_PAIRS or len(known) > _MAX_KNOWN:
        return dict.fromkeys(unknown)
    is_affordable = comparing(unknown, known) <= effort
    words = {name: _words(name) for name in known}
    found: dict[str, str | None] = {} if is_affordable else dict.fromkeys(unknown)
    for name in unknown:
        close = close_names(name, known, 1, effort) if is_affordable else []
        own = _words(name)
        close += [other for other, parts in words.items() if own and parts and (parts <= own or own <= parts)]
        if close:
            found[name] = close[0]
    return found


def renamed(arguments: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    """The arguments under their new names, in the order in which they came."""
    return {names.get(name, name): value for name, value in arguments.items()}


def _by_fold(names: Iterable[str], wanted: Collection[str] | None = None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        fold = name.translate(_SEPARATORS).casefold() if len(name) <= _MAX_NAME else ""
        if wanted is None or fold in wanted:
            found.setdefault(fold, []).append(name)
    return found


def _words(name: str) -> frozenset[str]:
    """`user_name`, `userName` and `USER-NAME` have the words `user` and `name`. A single letter is no word."""
    return frozenset(word.casefold() for word in _WORD.findall(name[:_MAX_NAME]) if len(word) > 1)
