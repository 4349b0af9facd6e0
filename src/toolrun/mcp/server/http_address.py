"""Where `toolrun serve --http` listens, and by which names clients may call it.

An address beyond this machine requires a token.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from toolrun.errors import ConfigError

PATH: Final = "/mcp"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_HERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a program of this machine finds a server that listens on all addresses."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and whose requests to accept."""

    host: str
    port: int
    token: str = ""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients use for this server, besides those that it finds out itself."""
    allow_origins: tuple[str, ...] = ()
    """Origins of web pages that may call this server, as browsers write them; `*` for all."""

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, port: int) -> str:
        """The URL for clients; `port` is the one that the server listens on."""
        return f"http://{_in_url(self.host)}:{port}{PATH}"

    def page(self, port: int) -> str:
        """The URL for a browser on this machine."""
        return f"http://{_in_url(_HERE.get(self.host, self.host))}:{port}/"

    def names(self) -> frozenset[str]:
        """The names that a Host header may have, without the port."""
        own = [_in_url(self.host), socket.gethostname()]
        return frozenset(name.lower() for name in (*_LOOPBACK, *own, *self.allowed_hosts))


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def read_address(
    text: str, token: str, allowed_hosts: Iterable[str] = (), allow_origins: Iterable[str] = ()
) -> Address:
    """`PORT`, `HOST:PORT` or `[::1]:PORT`. Raises ConfigError for anything else, and if the token is missing."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--http {text}: this is not an address; write --http 8000 or --http HOST:8000")
    origins = tuple(map(_read_origin, allow_origins))
    address = Address(host.strip("[]") or "127.0.0.1", int(port), token, tuple(allowed_hosts), origins)
    if not address.is_loopback and not token:
        raise ConfigError(
            f"--http {text}: others could call your tools there. Leave out --no-token, and clients need a token; "
            f"or listen on this machine only: --http {address.port}"
        )
    if "*" in origins and not token:
        raise ConfigError(
            "--allow-origin *: any web page could call your tools. Leave out --no-token, and pages need a token; "
            "or name the origins"
        )
    return address


def _read_origin(text: str) -> str:
    """An origin as browsers write it: in lower case, without a port that goes without saying."""
    try:
        url = urlsplit(text.strip().lower())
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if text == "*":
        return text
    if (
        not url.scheme
        or not url.hostname
        or url.path not in ("", "/")
        or url.query
        or url.fragment
        or "@" in url.netloc
    ):
        raise ConfigError(f"--allow-origin {text}: this is not an origin; write it like https://app.example")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    is_usual = port is None or port == {"http": 80, "https": 443}.get(url.scheme)
    return f"{url.scheme}://{host}" if is_usual else f"{url.scheme}://{host}:{port}"


def listen(address: Address) -> socket.socket:
    """Raises ConfigError if the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol named: otherwise asyncio leaves Nagle's algorithm on, and every answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen()
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise ConfigError(f"cannot listen on {address.host}:{address.port}: {reason}; choose another port") from None
    return listening
