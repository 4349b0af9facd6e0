"""Which token goes to which server."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolrun.cli.running_server import find_server
from toolrun.config.model import Config
from toolrun.errors import ConfigError
from toolrun.mcp.http_token import keep_token


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_a_server_on_this_machine_gets_the_token_of_the_project(host: str, tmp_path: Path) -> None:
    token = keep_token(tmp_path)
    found = find_server(f"http://{host}:8000", Config(path=None, root=tmp_path))
    assert (found.url, found.token, found.origin) == (f"http://{host}:8000/mcp", token.value, str(token.file))


@pytest.mark.parametrize("host", ["tools.example", "localhost.example", "127.0.0.1.example", "192.168.1.5"])
def test_no_other_server_gets_it(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_token(tmp_path)
    config = Config(path=None, root=tmp_path)
    assert find_server(f"https://{host}/mcp", config).token == ""
    monkeypatch.setenv("TOOLRUN_SERVE_TOKEN", "mine")
    assert find_server(f"https://{host}/mcp", config).token == "mine"


def test_the_token_is_in_no_other_place_than_the_header(tmp_path: Path) -> None:
    token = keep_token(tmp_path)
    found = find_server("http://127.0.0.1:8000/mcp", Config(path=None, root=tmp_path))
    assert token.value not in repr(found)
    config = found.config(Config(path=tmp_path / "toolrun.toml", root=tmp_path), is_quiet=False)
    [settings] = config.servers.values()
    assert settings.headers == {"Authorization": f"Bearer {token.value}"}


def test_a_socket_needs_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep_token(tmp_path)
    for url in ("unix:s.sock", f"unix://{tmp_path}/s.sock"):
        found = find_server(url, Config(path=None, root=tmp_path))
        assert (found.url, found.token) == (f"unix:{tmp_path}/s.sock", "")


@pytest.mark.parametrize("url", ["8000", "localhost:8000", "ftp://x", "http://", "http://[x", ""])
def test_what_is_no_url_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"this is not the URL of a server; write --url http://127.0.0.1:8000/mcp"):
        find_server(url, Config(path=None, root=tmp_path))
