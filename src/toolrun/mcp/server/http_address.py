"""Where `toolrun serve --http` listens, and by which names clients may call it.

An address beyond this machine requires a token.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from toolrun.errors import ConfigError

PATH: Final = "/mcp"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and whose requests to accept."""

    host: str
    port: int
    token: str = ""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients use for this server, besides those that it finds out itself."""

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
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{port}{PATH}"

    def names(self) -> frozenset[str]:
        """The names that a Host header may have, without the port."""
        own = [f"[{self.host}]" if ":" in self.host else self.host, socket.gethostname()]
        return frozenset(name.lower() for name in (*_LOOPBACK, *own, *self.allowed_hosts))


def read_address(text: str, token: str, allowed_hosts: Iterable[str]) -> Address:
    """`PORT`, `HOST:PORT` or `[::1]:PORT`. Raises ConfigError for anything else, and if the token is missing."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--http {text}: this is no address; write --http 8000 or --http HOST:8000")
    address = Address(host.strip("[]") or "127.0.0.1", int(port), token, tuple(allowed_hosts))
    if not address.is_loopback and not token:
        raise ConfigError(
            f"--http {text}: others could call your tools there. Set a token, which clients then send: "
            "TOOLRUN_SERVE_TOKEN=… or --token …; or listen on this machine only: "
            f"--http {address.port}"
        )
    return address


def listen(address: Address) -> socket.socket:
    """Raises ConfigError if the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol named: otherwise asyncio leaves Nagle's algorithm on, and every answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise ConfigError(f"cannot listen on {address.host}:{address.port}: {reason}; choose another port") from None
    return listening
