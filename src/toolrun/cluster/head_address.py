"""Where the head of a cluster is, as [workers] address or RAY_ADDRESS says it. Pure."""

from __future__ import annotations

from toolrun.errors import ConfigError


def parse_head_address(text: str) -> tuple[str, int]:
    """Host and port. Raises ConfigError, also for what Ray alone understands: "auto", "ray://…"."""
    host, _, port = text.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise ConfigError(
            'the head of a cluster has an address such as "10.0.0.1:6379" (HOST:PORT); '
            f"[workers] address, or RAY_ADDRESS, is {text!r}"
        )
    return host.strip("[]"), int(port)
