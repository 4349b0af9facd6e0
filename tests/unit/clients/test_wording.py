"""The texts of the loop, and the limits at which they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolrun.clients import TurnLimits, Wording
from toolrun.errors import ConfigError


def test_a_file_replaces_some_texts_and_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('repeated = "Schon {count} mal."\nclosed = "Nein {wirklich}."\n')
    own, shipped = Wording.load(file), Wording.load()
    assert own.repeated.format(count=2) == "Schon 2 mal."
    assert own.closed == "Nein {wirklich}."
    assert own.no_answer == shipped.no_answer


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('answer = "x"', "there is no text 'answer'"),
        ("repeated = 3", "'repeated' must be a text"),
        ('repeated = "{times}"', "It may have {count}"),
        ('repeated = "{count"', "braces in 'repeated'"),
        ("repeated = ", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_reason(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        Wording.load(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        Wording.load(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", ["rounds", "calls", "time", "repeats", "parallel", "answer_time"])
def test_limits_are_numbers_that_make_sense(name: str) -> None:
    for wrong in (-1, "3", True, float("nan")):
        with pytest.raises(ConfigError, match=name):
            TurnLimits(**{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["repeats", "parallel", "answer_time"])
def test_some_limits_cannot_be_nothing(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        TurnLimits(**{name: 0})
