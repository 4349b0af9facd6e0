"""The environment of a child process: an allow-list, so that the host's secrets do not reach it.

Knows which variables every program needs; the caller says what else its child may see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

_BASE: Final = frozenset({"PATH", "HOME", "LANG", "LANGUAGE"})
"""Where programs and the home directory are, and with LC_… the locale."""


def child_environment(environ: Mapping[str, str], is_passed: Callable[[str], bool] | None = None) -> dict[str, str]:
    """The variables of `environ` that a child gets: the base ones, and those for which `is_passed` says so."""
    return {
        name: value
        for name, value in environ.items()
        if name in _BASE or name.startswith("LC_") or (is_passed is not None and is_passed(name))
    }
