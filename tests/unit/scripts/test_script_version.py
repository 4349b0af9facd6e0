"""What the header of a script says of its tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolrun import Config, ConfigError
from toolrun.scripts.script_version import read_version


def write(directory: Path, *lines: str) -> Path:
    header = "\n".join(["# /// script", "# dependencies = []", "#", "# [tool.toolrun]", *(f"# {it}" for it in lines)])
    file = directory / "pay.py"
    file.write_text(f"{header}\n# ///\ndef pay() -> None: ...\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("word", ["none", "idempotent", "keyed", "once"])
def test_a_script_declares_its_effects(tmp_path: Path, word: str) -> None:
    declared = read_version(
        write(tmp_path, f'effects = "{word}"', 'verify = "was_paid"'), Config(None, tmp_path)
    ).declared
    assert (declared.effects, declared.verify) == (word, "was_paid")


def test_a_script_need_not_declare_them(tmp_path: Path) -> None:
    declared = read_version(write(tmp_path, "timeout = 5"), Config(None, tmp_path)).declared
    assert (declared.effects, declared.verify) == (None, None)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('effects = "twice"', r"'effects' .* must be one of \"none\", \"idempotent\", \"keyed\", \"once\""),
        ("effects = true", r"'effects' .* must be one of \"none\""),
        ("verify = 7", "'verify' .* must be a string"),
        ("idempotent = true", "unknown key 'idempotent'.*effects"),
    ],
)
def test_a_wrong_declaration_is_refused_with_the_choices(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_version(write(tmp_path, line), Config(None, tmp_path))
