"""The address of an MQTT broker, as one URL: `mqtt://user:password@host:1883`, or `mqtts://` for TLS.

Knows nothing of topics and messages. Needs aiomqtt, which is imported when a client is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from toolrun.errors import ConfigError

if TYPE_CHECKING:
    import aiomqtt

_PORTS: Final = {"mqtt": 1883, "tcp": 1883, "mqtts": 8883, "tls": 8883}
_ENCRYPTED: Final = ("mqtts", "tls")
_FORM: Final = "write mqtt://HOST:1883, or mqtts://USER:PASSWORD@HOST for TLS"
_TIMEOUT: Final = 5.0
"""Seconds that the broker has for one answer."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker is, and the credentials for it."""

    host: str
    port: int
    is_encrypted: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> BrokerAddress:
        """Raises ConfigError, which never shows the password."""
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise ConfigError(f"the address of the MQTT broker cannot be read ({error}); {_FORM}") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError(f"the address of the MQTT broker needs the scheme mqtt or mqtts, and a host; {_FORM}")
        return cls(
            parts.hostname,
            port,
            parts.scheme in _ENCRYPTED,
            unquote(parts.username) if parts.username else None,
            unquote(parts.password) if parts.password else None,
        )

    def __str__(self) -> str:
        """Without the credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.is_encrypted else 'mqtt'}://{host}:{self.port}"

    def client(self, *, timeout: float = _TIMEOUT, **options: Any) -> aiomqtt.Client:
        """A client for this broker, not yet connected. `options` are those of aiomqtt."""
        import ssl

        import aiomqtt

        return aiomqtt.Client(
            self.host,
            self.port,
            username=self.username,
            password=self.password,
            tls_context=ssl.create_default_context() if self.is_encrypted else None,
            timeout=timeout,
            **options,
        )
