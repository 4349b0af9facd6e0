"""The address of an MQTT broker, as one URL: `mqtt://user:password@host:1883`, or `mqtts://` for TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import aiomqtt

PORTS = {"mqtt": 1883, "tcp": 1883, "mqtts": 8883, "tls": 8883}
TLS_SCHEMES = {"mqtts", "tls"}


@dataclass(frozen=True)
class BrokerAddress:
    """Where a broker is, and who asks."""

    host: str
    port: int
    is_encrypted: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> BrokerAddress:
        """Read the URL. Raises ValueError, with words for the person who wrote it and without the password."""
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("the address of an MQTT broker looks like mqtt://host:1883 or mqtts://user:password@host")
        try:
            port = parts.port or PORTS[parts.scheme]
        except ValueError:
            raise ValueError("the port of an MQTT broker is a number from 1 to 65535") from None
        return cls(
            host=parts.hostname,
            port=port,
            is_encrypted=parts.scheme in TLS_SCHEMES,
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.is_encrypted else 'mqtt'}://{host}:{self.port}"

    def client(self, *, will: aiomqtt.Will | None = None, timeout: float = 5.0) -> aiomqtt.Client:
        """A client for this broker, not yet connected."""
        return aiomqtt.Client(
            self.host,
            self.port,
            username=self.username,
            password=self.password,
            tls_context=ssl.create_default_context() if self.is_encrypted else None,
            will=will,
            timeout=timeout,
        )
