from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolrun.config.model import Config
from toolrun.json import dumps
from toolrun.scripts.description import Description, DescriptionCache, read_description
from toolrun.scripts.version import Version, read_version

FUNCTION = {"name": "add", "description": "Add.", "schema": {"type": "object"}, "async": False}
GOOD: dict[str, Any] = {
    "functions": [FUNCTION],
    "skipped": [{"name": "each", "reason": "it is a generator"}],
    "warnings": ["careful"],
}


@pytest.fixture
def version(tmp_path: Path) -> Version:
    path = tmp_path / "add.py"
    path.write_text("# /// script\n# dependencies = []\n# ///\n")
    return read_version(path, Config(None, tmp_path))


def test_a_description_is_kept_and_found_again(tmp_path: Path, version: Version) -> None:
    cache, description = DescriptionCache(tmp_path / "cache"), read_description(GOOD)
    assert description is not None
    assert cache.find(version) is None
    cache.keep(version, description)
    assert cache.find(version) == description


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"7",
        dumps(GOOD)[:-20],
        dumps(GOOD | {"functions": None}),
        dumps(GOOD | {"functions": {}}),
        dumps(GOOD | {"functions": ["add"]}),
        dumps(GOOD | {"functions": [{"name": "add"}]}),
        dumps(GOOD | {"functions": [FUNCTION | {"name": 7}]}),
        dumps(GOOD | {"functions": [FUNCTION | {"schema": []}]}),
        dumps(GOOD | {"functions": [FUNCTION | {"description": 7}]}),
        dumps(GOOD | {"skipped": [{"name": "each"}]}),
        dumps(GOOD | {"skipped": ["each"]}),
        dumps(GOOD | {"warnings": [7]}),
        dumps(GOOD | {"warnings": "careful"}),
        b"\xff\xfe",
    ],
)
def test_a_file_of_another_form_counts_as_absent_and_is_replaced(
    tmp_path: Path, version: Version, content: bytes
) -> None:
    cache, description = DescriptionCache(tmp_path / "cache"), read_description(GOOD)
    assert isinstance(description, Description)
    cache.keep(version, description)
    [file] = (tmp_path / "cache").iterdir()
    file.write_bytes(content)
    assert cache.find(version) is None
    cache.keep(version, description)
    assert cache.find(version) == description


def test_a_named_pipe_in_place_of_the_file_counts_as_absent_and_is_replaced(tmp_path: Path, version: Version) -> None:
    cache, description = DescriptionCache(tmp_path / "cache"), read_description(GOOD)
    assert description is not None
    cache.keep(version, description)
    [file] = (tmp_path / "cache").iterdir()
    file.unlink()
    os.mkfifo(file)
    assert cache.find(version) is None
    cache.keep(version, description)
    assert cache.find(version) == description


def test_a_directory_that_cannot_be_written_to_costs_nothing_but_the_cache(tmp_path: Path, version: Version) -> None:
    (tmp_path / "cache").write_bytes(b"")
    cache, description = DescriptionCache(tmp_path / "cache"), read_description(GOOD)
    assert description is not None
    cache.keep(version, description)
    assert cache.find(version) is None
