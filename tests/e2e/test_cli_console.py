"""`toolrun console`: finds the server of a project or starts one, and opens the page or says where it is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from support.console import LIMIT, started, toolrun
from support.serving import Served, serving

TOOL = '''
from toolrun import tool


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
'''
NO_SCREEN = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "", "TOOLRUN_SERVE_TOKEN": ""}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/greet.py").write_text(TOOL)
    (tmp_path / "toolrun.toml").write_text("")
    return tmp_path


@pytest.fixture
def server(project: Path) -> Iterator[Served]:
    with serving("--http", "0", cwd=project) as running:
        yield running


def get(url: str) -> httpx2.Response:
    """The approvals, with the token of an address."""
    parts = urlsplit(url)
    token = parts.fragment.removeprefix("token=")
    return httpx2.get(
        f"http://{parts.netloc}/api/approvals", headers={"Authorization": f"Bearer {token}"}, timeout=LIMIT
    )


def test_it_finds_the_server_that_runs_for_the_project(server: Served, project: Path) -> None:
    (project / "deeper").mkdir()
    done = toolrun("console", cwd=project / "deeper", env=NO_SCREEN)
    host, port = server.place
    assert done.returncode == 0, done.stderr
    url = done.stdout.strip()
    assert url.startswith(f"http://{host}:{port}/#token=")
    assert get(url).status_code == 200


def test_a_browser_gets_the_token_in_a_file_that_others_cannot_read(server: Served, project: Path) -> None:
    browser = project / "browser"
    browser.write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/opened"\n')
    browser.chmod(0o755)
    done = toolrun("console", cwd=project, env={**NO_SCREEN, "BROWSER": f"{browser} %s"})
    assert done.returncode == 0, done.stderr
    page = project / ".toolrun/console.html"
    assert (project / "opened").read_text().strip() == page.as_uri()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    token = (project / ".toolrun/token").read_text().strip()
    assert f"#token={token}" in page.read_text()
    assert token not in done.stdout + done.stderr


def test_it_starts_a_server_that_ends_with_it(project: Path) -> None:
    for name in ("toolrun", "ctypes"):  # as a script may have left it
        (project / f"{name}.py").write_text("raise SystemExit('was shadowed')")
    with started("console", "--no-browser", cwd=project) as console:
        assert console.stdout is not None
        url = console.stdout.readline().strip()
        assert get(url).status_code == 200
        console.send_signal(signal.SIGTERM)
        assert console.wait(LIMIT) == 0
    with pytest.raises(httpx2.ConnectError):
        get(url)
    assert not (project / ".toolrun/server.json").exists()


def test_the_address_of_a_server_that_was_killed_is_not_believed(project: Path) -> None:
    with serving("--http", "0", cwd=project) as server:
        old = server.place
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(LIMIT)
    assert (project / ".toolrun/server.json").exists()
    with started("console", "--no-browser", cwd=project) as console:
        assert console.stdout is not None
        url = console.stdout.readline().strip()
        assert get(url).status_code == 200
        assert urlsplit(url).port != old[1]
        console.terminate()
        assert console.wait(LIMIT) == 0


def test_a_server_that_cannot_start_says_why(project: Path) -> None:
    done = toolrun("console", "--http", "nowhere", cwd=project, env=NO_SCREEN)
    assert done.returncode == 2
    assert "--http nowhere: this is not an address" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_project_it_says_what_to_do(tmp_path: Path) -> None:
    done = toolrun("console", cwd=tmp_path, env=NO_SCREEN)
    assert done.returncode == 2
    assert "there is no toolrun.toml here" in done.stderr


def test_a_file_that_is_no_address_is_ignored(project: Path) -> None:
    (project / ".toolrun").mkdir()
    (project / ".toolrun/server.json").write_text('["http://example.org/"]')
    with started("console", "--no-browser", cwd=project) as console:
        assert console.stdout is not None
        assert console.stdout.readline().startswith("http://127.0.0.1:")
        console.terminate()
        try:
            console.wait(LIMIT)
        except subprocess.TimeoutExpired:
            pytest.fail("the server of the console did not end")
