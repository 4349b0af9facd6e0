"""Host patterns: which hosts and ports an entry of `net` allows. Pure; resolves no name and knows no proxy.

| pattern            | allows                                               |
|--------------------|------------------------------------------------------|
| `example.com`      | this name, ports 80 and 443                          |
| `example.com:8080` | this name and port                                   |
| `example.com:*`    | this name, any port                                  |
| `*.example.com`    | its subdomains at any depth, but not the name itself |
| `192.0.2.1:80`     | this address                                         |
| `[2001:db8::1]:80` | this address                                         |

A host has one spelling here: lower case, ASCII (IDNA), no final dot, addresses in their shortest form, and an IPv4
address that is wrapped in an IPv6 one is the IPv4 address. Both sides of a comparison have it. `0x7f.1` and
`2130706433`, which some resolvers take for 127.0.0.1, are no hosts at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from toolrun.text import cut

_DEFAULT_PORTS: Final = frozenset({80, 443})
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::(.*))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME: Final = 253
_METADATA: Final = frozenset({"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"})
"""Of the clouds whose metadata service has an address that is not link-local as well."""
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::ffff:0:0:0/96"))
"""Addresses that end with an IPv4 one: RFC 6052, RFC 8215 and RFC 2765."""
_AMBIGUOUS: Final = frozenset("ßẞς\u200c\u200d")
"""The IDNA of the standard library (2003) turns these into another name than that of browsers and httpx (2008) does."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host, in its one spelling, and a port."""

    host: str
    port: int

    @classmethod
    def of_address(cls, address: str, port: int) -> Endpoint:
        """Of an address as resolvers give it, which may have a scope: `fe80::1%eth0`."""
        return cls(normalise_host(address.partition("%")[0]), port)

    @property
    def is_literal(self) -> bool:
        """Whether the host is an address."""
        return ":" in self.host or _is_ipv4(self.host)

    def __str__(self) -> str:
        return self.authority()

    def authority(self, default_port: int | None = None) -> str:
        """Host and port as in a URL; the host alone if the port is the default one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == default_port else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostPattern:
    """One entry of an allow-list."""

    host: str
    """In its one spelling, without the `*.`."""
    ports: frozenset[int] | None = _DEFAULT_PORTS
    """None for any port."""
    is_wildcard: bool = False

    def matches(self, host: str, port: int) -> bool:
        """Whether the pattern allows this host, however it is spelled, and port."""
        if self.ports is not None and port not in self.ports:
            return False
        try:
            wanted = normalise_host(host)
        except ValueError:
            return False
        return wanted.endswith(f".{self.host}") if self.is_wildcard else wanted == self.host


def parse_host_pattern(text: str) -> HostPattern:
    """The pattern. Raises ValueError, for people, if it is malformed."""
    try:
        if "/" in text or "@" in text:
            raise ValueError("a pattern has no scheme, path or user name")
        host, port = _split(text)
        parent = host.removeprefix("*.")
        is_wildcard = parent != host
        if "*" in parent:
            raise ValueError("'*' stands only for subdomains, at the start, or for all ports")
        name = normalise_host(parent)
        if is_wildcard and Endpoint(name, 0).is_literal:
            raise ValueError("an address has no subdomains")
        if port is None:
            return HostPattern(name, is_wildcard=is_wildcard)
        return HostPattern(name, None if port == "*" else frozenset({_port(port)}), is_wildcard)
    except ValueError as error:
        raise ValueError(
            f"Host pattern {_shown(text)} is malformed: {error}. "
            "Write a host and a port, such as 'api.example.com:443', '*.example.org' or '[::1]:8080'."
        ) from None


def parse_endpoint(text: str, default_port: int | None = None) -> Endpoint:
    """The host and port of `host:port`. Raises ValueError, also if there is no port and no default."""
    host, port = _split(text)
    if port is not None:
        return Endpoint(normalise_host(host), _port(port))
    if default_port is None:
        raise ValueError("the port is missing")
    return Endpoint(normalise_host(host), default_port)


def normalise_host(text: str) -> str:
    """The one spelling of a name or address, which may have brackets. Raises ValueError if it is neither."""
    if ":" in text or text.startswith("["):
        return _ipv6(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    name = (text if text.isascii() else _ascii(text)).lower().removesuffix(".")
    if _is_ipv4(name):
        return name
    labels = name.split(".")
    if not name:
        raise ValueError("the host is missing")
    if len(name) > _MAX_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{_shown(text)} is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{_shown(text)} is neither a host name nor an IPv4 address")
    return name


def may_lead_to(name: str, address: str) -> bool:
    """Whether a name may resolve to this address without an entry for the address, both in their one spelling.

    A public name that leads to this machine, its link or the metadata of a cloud was set up to deceive (DNS
    rebinding). Private networks are not in question: names of a company or a home lead there.
    """
    found = _embedded(ip_address(address))
    if found.is_loopback:
        return name == "localhost" or name.endswith(".localhost")
    return not (found.is_link_local or found.is_unspecified or found.is_multicast or str(found) in _METADATA)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one stands for where the network translates (NAT64, 6to4), else itself."""
    if isinstance(address, IPv6Address):
        if any(address in network for network in _TRANSLATED):
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.sixtofour or address
    return address


def _split(text: str) -> tuple[str, str | None]:
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise ValueError("it is not a host and a port")
    host, port = found.groups()
    if port is not None and ":" in port:
        raise ValueError("an IPv6 address needs brackets")
    return host, port


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise ValueError(f"port {_shown(text)} is not a number from 1 to 65535")
    return int(text)


def _ascii(text: str) -> str:
    if _AMBIGUOUS & set(text):
        raise ValueError(f"{_shown(text)} has more than one ASCII form; write the one you mean (xn--…)")
    try:
        # Long texts take the codec quadratic time.
        return text.encode("idna").decode("ascii") if len(text) <= _MAX_NAME else text
    except UnicodeError:
        raise ValueError(f"{_shown(text)} is not a host name") from None


def _ipv6(text: str) -> str:
    try:
        if "%" in text:
            raise AddressValueError
        address = IPv6Address(text)
    except AddressValueError:
        raise ValueError(f"{_shown(text)} is not an IPv6 address") from None
    return str(address.ipv4_mapped or address)


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def _shown(text: str) -> str:
    return repr(cut(text, 100))


def is_host_pattern(text: str) -> bool:
    """Whether `net` may have this entry."""
    try:
        parse_host_pattern(text)
    except ValueError:
        return False
    return True
