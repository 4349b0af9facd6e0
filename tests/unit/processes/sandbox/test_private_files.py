"""What only root may read: found at any depth, and again when something has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolrun.processes.sandbox import private_files as module
from toolrun.processes.sandbox.private_files import private_files

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="for others the system itself refuses these files")


def make(path: Path, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("x")
    path.chmod(mode)
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A directory that was last changed long ago, with a public and a private file."""
    make(tmp_path / "public", 0o644)
    make(tmp_path / "private", 0o640)
    os.utime(tmp_path, (1, 1))
    return tmp_path


def found(settings: Path) -> set[str]:
    return {str(path.relative_to(settings)) for path in private_files(str(settings))}


def test_private_files_and_directories_are_found_at_any_depth(settings: Path) -> None:
    make(settings / "a" / "b" / "key", 0o600)
    closed = make(settings / "closed" / "file", 0o644).parent
    closed.chmod(0o710)
    (settings / "link").symlink_to("private")
    assert found(settings) == {"private", "a/b/key", "closed"}


def test_a_private_file_that_is_made_or_moved_is_found_at_the_next_look(settings: Path) -> None:
    assert found(settings) == {"private"}
    make(settings / "later", 0o600)
    assert found(settings) == {"private", "later"}
    (settings / "later").rename(settings / "moved")
    assert found(settings) == {"private", "moved"}


def test_a_directory_that_was_changed_just_now_is_not_believed(settings: Path) -> None:
    """The next change may have the same time."""
    (settings / "new").touch(mode=0o644)
    assert found(settings) == {"private"}
    changed = settings.stat().st_mtime_ns
    make(settings / "later", 0o600)
    os.utime(settings, ns=(changed, changed))
    assert found(settings) == {"private", "later"}


def test_a_file_that_becomes_private_is_found_after_a_while(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(settings) == {"private"}
    (settings / "public").chmod(0o600)
    assert found(settings) == {"private"}, "its directory has not changed"
    monkeypatch.setattr(module, "_LOOK_AGAIN", 0.0)
    assert found(settings) == {"private", "public"}


def test_others_than_root_hide_nothing(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert found(settings) == set()
