"""Sockets that only their user can connect to."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from toolrun.errors import ConfigError
from toolrun.mcp.server.unix_socket import listen_unix


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_only_its_user_can_connect_and_it_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "tools.sock"
    with listen_unix(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connect(path)
    assert not path.exists()


def test_the_socket_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "tools.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listen_unix(path):
        connect(path)


def test_a_socket_on_which_somebody_listens_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tools.sock"
    with listen_unix(path):
        with pytest.raises(ConfigError, match="another server listens there"), listen_unix(path):
            pass
        connect(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_is_left_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tools.sock"
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="something other than a socket"), listen_unix(path):
        pass
    assert path.is_symlink() or path.exists()


def test_a_path_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot listen there: No such file"), listen_unix(tmp_path / "no" / "s"):
        pass
    with pytest.raises(ConfigError, match=r"cannot listen there: .*too long"), listen_unix(tmp_path / ("x" * 200)):
        pass


def test_a_socket_that_another_server_made_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "tools.sock"
    with socket.socket(socket.AF_UNIX) as other:
        with listen_unix(path):
            path.unlink()
            other.bind(str(path))
        assert path.exists()
