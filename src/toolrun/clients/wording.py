"""The texts that the loop sends to models. They are in a file, so that they can be changed without code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Self

from toolrun.clients.turn_event import Ended
from toolrun.clients.turn_limits import TurnLimits
from toolrun.config.parse import read_text
from toolrun.errors import ConfigError
from toolrun.text import suggestion

_PLACEHOLDERS: Final[Mapping[str, Mapping[str, str | int | float]]] = {
    "repeated": {"count": 2},
    "too_many": {"limit": 100},
    "time_over": {"seconds": 600.0},
    "time_interrupted": {"seconds": 600.0},
    "answer_after_rounds": {"limit": 10},
    "reply_as_json": {"schema": "{}"},
    "ask_for_type": {"problems": "'a' is missing"},
    "answer_after_calls": {"limit": 100},
    "image_not_shown": {"kind": "image/png"},
    "content_not_shown": {"kind": "audio"},
    "images_follow": {"names": "camera"},
}
"""The placeholders of each text, with examples. Texts that are not listed here have none."""


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
    stopped: str
    malformed: str
    answer_after_repeats: str
    answer_after_rounds: str
    answer_after_calls: str
    answer_after_time: str
    ask_after_empty: str
    ask_after_malformed: str
    reply_as_json: str
    ask_for_type: str
    no_answer: str
    no_question: str
    no_beginning: str
    broken_off: str
    image_not_shown: str
    content_not_shown: str
    images_follow: str

    @classmethod
    def load(cls, path: str | Path | None = None) -> Self:
        """The texts that ship with toolrun; a file replaces single ones. Raises ConfigError."""
        texts = dict(_shipped())
        if path is not None:
            texts |= _read(Path(path), frozenset(texts))
        return cls(**texts)

    def request_after(self, ended: Ended, limits: TurnLimits) -> str:
        """The request to answer without tools, at a limit."""
        match ended:
            case Ended.REPEATS:
                return self.answer_after_repeats
            case Ended.CALLS:
                return self.answer_after_calls.format(limit=limits.calls)
            case Ended.TIME:
                return self.answer_after_time
        return self.answer_after_rounds.format(limit=limits.rounds)


@cache
def _shipped() -> dict[str, str]:
    texts = tomllib.loads(files("toolrun.clients").joinpath("wording.toml").read_text(encoding="utf-8"))
    assert set(texts) == {item.name for item in fields(Wording)}
    return texts


def _read(path: Path, known: frozenset[str]) -> dict[str, str]:
    try:
        given = tomllib.loads(read_text(path))
    except ValueError as error:  # ConfigError, too
        raise ConfigError(f"The wording file {path} cannot be read: {error}") from error
    for name, text in given.items():
        if name not in known:
            raise ConfigError(f"{path}: there is no text '{name}'; {suggestion(name, known)}.")
        if not isinstance(text, str):
            raise ConfigError(f"{path}: '{name}' must be a text, not {text!r:.50}.")
        if name in _PLACEHOLDERS:
            _check_braces(path, name, text)
    return given


def _check_braces(path: Path, name: str, text: str) -> None:
    try:
        text.format_map(_PLACEHOLDERS[name])
    except (KeyError, IndexError, ValueError) as error:
        allowed = ", ".join(f"{{{value}}}" for value in _PLACEHOLDERS[name])
        raise ConfigError(
            f"{path}: the braces in '{name}' cannot be filled ({error}). It may have {allowed}."
        ) from error
