"""What models are told by the loop itself: read from a text file, so that it can be changed without code."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Self

from toolrun.errors import ConfigError

_VALUES: Final[dict[str, dict[str, Any]]] = {
    "repeated": {"count": 2},
    "too_many": {"limit": 100},
    "time_over": {"seconds": 600.0},
    "time_interrupted": {"seconds": 600.0},
    "answer_after_rounds": {"limit": 10},
    "answer_after_calls": {"limit": 100},
    "image_not_shown": {"kind": "image/png"},
    "images_follow": {"names": "camera"},
}
"""What may stand in braces in a text, with examples. The texts that are not here have no braces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The texts of `wording.toml`, where each is explained."""

    not_run: str
    interrupted: str
    no_record: str
    cut_off: str
    repeated: str
    too_many: str
    time_over: str
    time_interrupted: str
    closed: str
    answer_after_repeats: str
    answer_after_rounds: str
    answer_after_calls: str
    answer_after_time: str
    no_answer: str
    broken_off: str
    image_not_shown: str
    images_follow: str

    @classmethod
    def load(cls, path: str | Path | None = None) -> Self:
        """The texts that ship with toolrun, with those of a file in their place. Raises ConfigError."""
        texts = dict(_shipped())
        if path is not None:
            texts |= _read(Path(path), frozenset(texts))
        return cls(**texts)


@cache
def _shipped() -> dict[str, str]:
    texts = tomllib.loads(files("toolrun.clients").joinpath("wording.toml").read_text(encoding="utf-8"))
    assert set(texts) == {item.name for item in fields(Wording)}
    return texts


def _read(path: Path, known: frozenset[str]) -> dict[str, str]:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"The wording file {path} cannot be read: {error}") from error
    for name, text in given.items():
        if name not in known:
            raise ConfigError(f"{path}: there is no text '{name}'. Known are: {', '.join(sorted(known))}.")
        if not isinstance(text, str):
            raise ConfigError(f"{path}: '{name}' must be a text, not {text!r:.50}.")
        if name in _VALUES:
            _check_braces(path, name, text)
    return given


def _check_braces(path: Path, name: str, text: str) -> None:
    try:
        text.format_map(_VALUES[name])
    except (KeyError, IndexError, ValueError) as error:
        can = ", ".join(f"{{{value}}}" for value in _VALUES[name])
        raise ConfigError(f"{path}: the braces in '{name}' cannot be filled ({error}). It may have {can}.") from error
