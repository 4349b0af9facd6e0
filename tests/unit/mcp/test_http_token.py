"""The token of a project: made once, readable by its user alone, and never shown by accident."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from toolrun.errors import ConfigError
from toolrun.mcp.http_token import ServerToken, keep_token, read_token, token_file


def test_a_token_is_made_once_and_kept_for_its_user_alone(tmp_path: Path) -> None:
    first = keep_token(tmp_path)
    assert first.file == token_file(tmp_path) == tmp_path / ".toolrun" / "token"
    assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.file.parent.stat().st_mode) == 0o700
    assert len(first.value) >= 43  # 32 bytes in base64
    assert first.file.read_text() == first.value
    assert keep_token(tmp_path) == first
    assert sorted(it.name for it in first.file.parent.iterdir()) == [".gitignore", "token"]


def test_whatever_the_umask_is_nobody_else_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = keep_token(tmp_path)
    finally:
        os.umask(before)
    assert made.file is not None
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600


def test_of_many_servers_that_start_at_once_all_have_the_same_token(tmp_path: Path) -> None:
    together = Barrier(16)

    def start(root: Path) -> ServerToken:
        together.wait(30)
        return keep_token(root)

    with ThreadPoolExecutor(16) as threads:
        for project in range(50):
            root = tmp_path / str(project)
            root.mkdir()
            tokens = set(threads.map(start, [root] * 16))
            assert [it.file for it in tokens] == [token_file(root)]


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602, 0o644])
def test_a_file_that_others_can_read_or_change_is_refused(mode: int, tmp_path: Path) -> None:
    made = keep_token(tmp_path)
    assert made.file is not None
    made.file.chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"others can read or change it \(mode {mode:o}\)\. Delete it.*: rm "
    ) as caught:
        keep_token(tmp_path)
    assert made.value not in str(caught.value)


def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    file = token_file(tmp_path)
    file.parent.mkdir()
    for content in ("", "\n", "two words", "ümlaut", "a\x00b"):
        file.write_text(content)
        file.chmod(0o600)
        with pytest.raises(ConfigError, match="there is no token in it"):
            read_token(file)
        file.unlink()
    (tmp_path / "elsewhere").write_text("secret")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(file)
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_token(file)


def test_where_it_cannot_be_kept_it_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / ".toolrun").touch()  # in the way, also for root
    made = keep_token(tmp_path)
    assert made.file is None
    assert made.value
    assert ".toolrun/token cannot be written: Not a directory" in made.reason
    assert keep_token(tmp_path).value != made.value
    assert "no toolrun.toml" in keep_token(None).reason


def test_it_is_not_shown_where_values_are_printed() -> None:
    assert "hidden" not in repr(ServerToken("hidden"))
