"""Only regular files are read, and not beyond a limit."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from toolrun.regular_file import UnsuitableFileError, read_regular_file


def test_a_regular_file_is_read_up_to_the_limit_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular_file(tmp_path / "file", 3_000_000) == b"x" * 3_000_000
    assert read_regular_file(str(tmp_path / "link"), 3_000_000) == b"x" * 3_000_000
    with pytest.raises(UnsuitableFileError, match="it is larger than 2,999,999 bytes"):
        read_regular_file(tmp_path / "file", 2_999_999)


def test_a_file_is_read_whose_size_is_not_known_beforehand() -> None:
    assert read_regular_file("/proc/self/stat", 10_000)
    with pytest.raises(UnsuitableFileError, match="larger than 10 bytes"):
        read_regular_file("/proc/self/stat", 10)


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(UnsuitableFileError, match="larger"):
        read_regular_file(tmp_path / "file", 1_000_000)


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, what in (
            (tmp_path / "pipe", "a named pipe"),
            (tmp_path / "socket", "a socket"),
            (Path("/dev/zero"), "a device"),
        ):
            (tmp_path / "link").unlink(missing_ok=True)
            (tmp_path / "link").symlink_to(path)
            for name in (path, tmp_path / "link"):
                with pytest.raises(UnsuitableFileError, match=f"it is {what}, not a regular file"):
                    read_regular_file(name, 1000)
    with pytest.raises(IsADirectoryError):
        read_regular_file(tmp_path, 1000)
    with pytest.raises(FileNotFoundError):
        read_regular_file(tmp_path / "missing", 1000)


def test_a_file_that_becomes_a_pipe_between_the_look_and_the_opening_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "file", os.stat
    path.write_bytes(b"x")
    status = real(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(os, "stat", lambda *_, **__: status)
    with pytest.raises(UnsuitableFileError, match="a named pipe"):
        read_regular_file(path, 1000)
