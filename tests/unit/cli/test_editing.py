"""Files that are replaced: in one step or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolrun.cli.editing import replace_file
from toolrun.errors import ConfigError


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_that_somebody_else_has_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("theirs")
    for expected in ("what we read", None):
        with pytest.raises(ConfigError, match="changed by another program"):
            replace_file(path, expected, "ours")
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["mcp.json"]


def test_a_file_that_cannot_be_written_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "before", "after \ud800")
    assert path.read_text() == "before"
    assert names(tmp_path) == ["mcp.json", "mcp.json.bak"]


def test_a_directory_that_is_missing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "mcp.json"
    assert replace_file(path, None, "text\r\n") is None
    assert path.read_bytes() == b"text\r\n"


def test_a_place_that_is_no_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        replace_file(tmp_path / "a" / "mcp.json", None, "text")
