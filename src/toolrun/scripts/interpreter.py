"""The Python that this process runs on, and whether it is one that a script can use. Pure."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path
from typing import Final

_CLAUSE: Final = re.compile(r"\s*(~=|==|!=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?\s*")


def base_interpreter() -> Path:
    """The interpreter below the virtual environment of this process, if it runs in one."""
    return Path(getattr(sys, "_base_executable", sys.executable))


def platform_tag() -> tuple[str, ...]:
    """What decides whether compiled packages of one interpreter work on another."""
    implementation = sys.implementation
    return (str(implementation.cache_tag), getattr(implementation, "_multiarch", ""), sysconfig.get_platform())


def is_met(specifier: str, version: tuple[int, ...]) -> bool:
    """Whether a version of Python meets a `requires-python`, beyond doubt.

    False also for what is not understood (`===`, pre-releases, malformed text): uv is asked then. uv itself does not
    refuse an interpreter that it was told to use: it warns, and makes an environment that the script cannot run in.
    """
    return not specifier.strip() or all(_is_clause_met(clause, version) for clause in specifier.split(","))


def _is_clause_met(clause: str, version: tuple[int, ...]) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        return False
    operator, release, is_prefix = match[1], tuple(int(part) for part in match[2].split(".")), bool(match[3])
    if operator in ("==", "!="):
        # PEP 440 takes 3.11 for 3.11.0, some versions of uv for 3.11.*: only what holds for both is beyond doubt.
        is_prefix = is_prefix or (operator == "!=" and len(release) == 2)
        length = len(release) if is_prefix else max(len(release), len(version))
        return (_padded(version, length)[:length] == _padded(release, length)) == (operator == "==")
    if is_prefix or (operator == "~=" and len(release) < 2):
        return False
    length = max(len(release), len(version))
    have, wanted = _padded(version, length), _padded(release, length)
    return {
        "<": have < wanted,
        "<=": have <= wanted,
        ">": have > wanted,
        ">=": have >= wanted,
        "~=": have >= wanted and have[: len(release) - 1] == release[:-1],
    }[operator]


def _padded(release: tuple[int, ...], length: int) -> tuple[int, ...]:
    return release + (0,) * (length - len(release))
