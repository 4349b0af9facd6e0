"""A running `toolrun serve` as the only source of tools: `--url` of `call` and `list`.

The token of the project is sent to this machine only, because any server that gets it can use it. A server elsewhere
gets the one in the environment.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from toolrun.config.model import Config, FileSettings, ServerSettings
from toolrun.errors import ConfigError
from toolrun.mcp.http_token import VARIABLE, read_token, token_file

if TYPE_CHECKING:
    from toolrun.runtime import Runtime

F = TypeVar("F", bound=Callable[..., Any])

_NAME: Final = "toolrun"
_PATH: Final = "/mcp"


def url_option(function: F) -> F:
    return click.option(
        "--url",
        metavar="URL",
        help="Use the tools of a running 'toolrun serve': http://127.0.0.1:8000/mcp, or unix:PATH of its socket.",
    )(function)


def without_tools(config: Config) -> Config:
    """The configuration without anything that is started or needed for the project's own tools."""
    return replace(
        config,
        path=None,
        files=FileSettings((), ()),
        tool={},
        secrets={},
        missing_secrets={},
        mcp=replace(config.mcp, files=()),
        servers={},
        missing_servers={},
    )


@dataclass(frozen=True, slots=True)
class RunningServer:
    """Where a server runs, and the token for it."""

    url: str
    token: str = field(default="", repr=False)
    origin: str = ""
    """Where the token comes from."""

    def config(self, config: Config, *, is_quiet: bool) -> Config:
        """The configuration with this server as the only source of tools. It is tried once.

        `is_quiet`: the log says nothing of it, because `check` says what went wrong.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if is_quiet:
            logging.getLogger("toolrun.mcp").setLevel(logging.CRITICAL)
        return replace(
            without_tools(config),
            servers={_NAME: ServerSettings(url=self.url, headers=headers)},
            mcp=replace(config.mcp, files=(), delays=(0.0,)),
        )

    async def check(self, runtime: Runtime) -> None:
        """Wait for the connection. Raises ConfigError with what to do if there is none."""
        await runtime.ready()
        [server] = runtime.servers
        if server.session is not None:
            server.session.speak_for_person()
            return
        reason = server.error
        if "HTTP 401" not in reason:
            raise ConfigError(f"--url {self.url}: {reason}. Does 'toolrun serve' run there?")
        if self.token:
            raise ConfigError(f"--url {self.url}: the server refuses the token in {self.origin}; it has another one")
        raise ConfigError(
            f"--url {self.url}: the server needs its token. Run this command in the project of the server, which keeps "
            f"the token in .toolrun/token, or set {VARIABLE}"
        )


def find_server(url: str, config: Config) -> RunningServer:
    """Raises ConfigError for what is no URL."""
    if url.startswith("unix:"):
        return RunningServer(f"unix:{Path(url[5:].removeprefix('//')).absolute()}")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"--url {url}: this is not the URL of a server; write --url http://127.0.0.1:8000{_PATH}")
    if parts.path in ("", "/"):
        url = parts._replace(path=_PATH).geturl()
    token = os.environ.get(VARIABLE, "")
    if token:
        return RunningServer(url, token, f"${VARIABLE}")
    file = token_file(config.root)
    known = read_token(file) if _is_loopback(host) else None
    return RunningServer(url) if known is None else RunningServer(url, known, str(file))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
