"""`toolrun console`: opens the web console, and starts a server for it if none runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import claim_stdout, complain, inform
from toolrun.cli.served_address import find_page
from toolrun.errors import ConfigError
from toolrun.mcp.http_token import VARIABLE, read_token, token_file
from toolrun.runtime import read_config

_PATIENCE: Final = 2.0
"""Seconds that a server on this machine gets to answer."""
_START: Final = 60.0
"""Seconds that a server gets to start: it loads every tool."""
_STEP: Final = 0.05
_ONWARDS: Final = """<!doctype html>
<meta charset="utf-8">
<title>toolrun</title>
<meta http-equiv="refresh" content="0; url={url}">
<a href="{url}">The console of toolrun</a>
"""
"""A page that leads to the other one: the command line of a browser, where everybody sees it, gets no token so."""


@click.command(name="console")
@click.option("--no-browser", is_flag=True, help="Print the address of the page instead of opening it.")
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    default="0",
    help="The address for the server that is started if none is running. Default: a free port of this machine.",
)
@shared_options()
@click.pass_obj
def command(options: Options, no_browser: bool, http: str) -> int:
    """Open the web console of this project in a browser.

    It shows the page of the 'toolrun serve --http' that runs for this project. If none does, it starts one, which ends
    with this command: with Ctrl-C. Without a browser it prints the address of the page, with the token in it.
    """
    config = read_config(options.config)
    if config.path is None:
        raise ConfigError(
            "toolrun console needs a project, and there is no toolrun.toml here; 'toolrun init' creates one"
        )
    output = claim_stdout()
    page = _running_page(config.root)
    if page is not None:
        _show(page, config.root, no_browser, output.text)
        return OK
    with _started(options, http) as server:
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        deadline = time.monotonic() + _START
        while (page := _running_page(config.root)) is None:
            if server.poll() is not None:
                return server.returncode or FAILED  # it has said why
            if time.monotonic() > deadline:
                server.terminate()
                complain(f"the server did not answer within {_START:.0f} s")
                return FAILED
            time.sleep(_STEP)
        _show(page, config.root, no_browser, output.text)
        try:
            return server.wait()
        except KeyboardInterrupt:
            server.wait()  # Ctrl-C went to it, too
            return OK


def _started(options: Options, http: str) -> subprocess.Popen[bytes]:
    """A server of this project. It writes on the terminal of this command, and gets its Ctrl-C."""
    where = () if options.config is None else ("--config", options.config)
    # -P: a module in the current directory, which a script may have written, shadows nothing.
    return subprocess.Popen([sys.executable, "-P", "-m", "toolrun", "serve", "--http", http, *where])


def _running_page(root: Path) -> str | None:
    """The address of the page of a server that runs, or None. A server that was killed leaves its address behind."""
    page = find_page(root)
    if page is None:
        return None
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit

    parts = urlsplit(page)
    connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_PATIENCE)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        is_ours = answer.status == 200 and json.loads(answer.read(1000)) == {"status": "ok"}
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return page if is_ours else None


def _show(page: str, root: Path, no_browser: bool, print_line: Callable[[str], None]) -> None:
    token = os.environ.get(VARIABLE) or read_token(token_file(root)) or ""
    url = f"{page}#token={quote(token, safe='')}" if token else page
    if no_browser or not _has_browser() or not _open(url, root):
        print_line(url)
    else:
        inform(f"The console is open in your browser: {page}")


def _has_browser() -> bool:
    """Whether there is a screen for one: a browser in the terminal cannot show the page."""
    if sys.platform == "darwin" or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(url: str, root: Path) -> bool:
    import webbrowser

    file = root / ".toolrun" / "console.html"
    try:
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as opened:  # noqa: PTH123  it is open already
            opened.write(_ONWARDS.format(url=url))
        return webbrowser.open(file.as_uri())
    except (OSError, webbrowser.Error):
        return False
