"""Host patterns: what each form allows, what no spelling gets past, and what a malformed one says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.config.host_pattern import (
    Endpoint,
    may_lead_to,
    normalise_host,
    parse_endpoint,
    parse_host_pattern,
)


@pytest.mark.parametrize(
    ("pattern", "host", "port"),
    [
        ("example.com", "example.com", 80),
        ("example.com", "example.com", 443),
        ("example.com:8080", "example.com", 8080),
        ("example.com:*", "example.com", 65535),
        ("*.example.com", "api.example.com", 443),
        ("*.example.com", "a.b.example.com", 80),
        ("*.example.com:8443", "api.example.com", 8443),
        ("*.example.com:*", "api.example.com", 1),
        ("localhost:8080", "localhost", 8080),
        ("my_host", "my_host", 80),
        ("192.0.2.1:8080", "192.0.2.1", 8080),
        ("[::1]:8080", "::1", 8080),
        ("[::1]:8080", "[0:0:0:0:0:0:0:1]", 8080),
        ("[::1]", "::1", 443),
        ("[::ffff:192.0.2.1]", "192.0.2.1", 80),
        ("192.0.2.1", "::ffff:192.0.2.1", 80),
        ("EXAMPLE.com.", "example.COM", 80),
        ("example.com", "Example.Com.", 80),
        ("bücher.example", "xn--bcher-kva.example", 443),
        ("xn--bcher-kva.example", "BÜCHER.example", 443),
        ("*.bücher.example", "www.xn--bcher-kva.example", 443),
    ],
)
def test_a_pattern_allows_its_hosts_in_every_spelling(pattern: str, host: str, port: int) -> None:
    assert parse_host_pattern(pattern).matches(host, port)


@pytest.mark.parametrize(
    ("pattern", "host", "port"),
    [
        ("example.com", "example.com", 8080),
        ("example.com:443", "example.com", 80),
        ("example.com", "api.example.com", 443),
        ("example.com", "example.com.evil.org", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "evilexample.com", 443),
        ("*.example.com", ".example.com", 443),
        ("*.example.com", "a..example.com", 443),
        ("*.example.com", "evil.org/.example.com", 443),
        ("*.example.com", "evil.org\x00.example.com", 443),
        ("*.example.com", "evil.org@a.example.com", 443),
        ("127.0.0.1", "127.1", 80),
        ("127.0.0.1", "2130706433", 80),
        ("127.0.0.1", "0x7f.0.0.1", 80),
        ("127.0.0.1", "0177.0.0.1", 80),
        ("[fe80::1]", "fe80::1%eth0", 80),
        ("example.com", "", 80),
        ("example.com", "example.com..", 80),
    ],
)
def test_a_pattern_allows_nothing_else(pattern: str, host: str, port: int) -> None:
    assert not parse_host_pattern(pattern).matches(host, port)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "the host is missing"),
        (":443", "the host is missing"),
        ("*", "'*' stands only for subdomains"),
        ("*:443", "'*' stands only for subdomains"),
        ("api.*.com", "'*' stands only for subdomains"),
        ("**.example.com", "'*' stands only for subdomains"),
        ("*.", "the host is missing"),
        ("*.127.0.0.1", "an address has no subdomains"),
        ("https://example.com", "no scheme, path or user name"),
        ("example.com/path", "no scheme, path or user name"),
        ("user@example.com", "no scheme, path or user name"),
        ("example.com:", "port '' is not a number from 1 to 65535"),
        ("example.com:0", "port '0' is not"),
        ("example.com:65536", "port '65536' is not"),
        ("example.com:080", "port '080' is not"),
        ("example.com:٤٤٣", "is not a number from 1 to 65535"),
        ("example.com:https", "port 'https' is not"),
        ("::1", "an IPv6 address needs brackets"),
        ("[::1", "not a host and a port"),
        ("[example.com]:80", "'example.com' is not an IPv6 address"),
        ("[fe80::1%eth0]:80", "is not an IPv6 address"),
        ("exa mple.com", "'exa mple.com' is not a host name"),
        ("example.com\n", "is not a host name"),
        ("-example.com", "'-example.com' is not a host name"),
        ("a..example.com", "is not a host name"),
        ("256.0.0.1", "neither a host name nor an IPv4 address"),
        ("127.1", "neither a host name nor an IPv4 address"),
        ("example.0x7f", "neither a host name nor an IPv4 address"),
        ("straße.example", "more than one ASCII form"),
        ("ü" * 300, "is not a host name"),
        ("a" * 64, "is not a host name"),
        ("\udc80.example", "is not a host name"),
    ],
)
def test_a_malformed_pattern_says_what_is_wrong_and_what_to_write(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match="Host pattern ") as caught:
        parse_host_pattern(pattern)
    text = str(caught.value)
    assert why in text
    assert text.endswith("Write a host and a port, such as 'api.example.com:443', '*.example.org' or '[::1]:8080'.")
    assert text.isprintable()
    assert len(text) < 500


@pytest.mark.parametrize("host", ["127。0。0。1", "127.0.0.1", "①27.0.0.1"])
def test_an_address_in_disguise_is_the_address(host: str) -> None:
    assert normalise_host(host) == "127.0.0.1"


@given(st.text() | st.from_regex(r"[a-z0-9.*:\[\]-]{1,20}", fullmatch=True))
def test_any_text_is_a_pattern_or_a_value_error(text: str) -> None:
    try:
        pattern = parse_host_pattern(text)
    except ValueError:
        return
    assert normalise_host(pattern.host) == pattern.host
    assert pattern.matches(f"a.{pattern.host}" if pattern.is_wildcard else pattern.host, min(pattern.ports or {1}))


def test_an_endpoint_is_written_as_it_is_read() -> None:
    for text in ("example.com:443", "192.0.2.1:80", "[2001:db8::1]:8080"):
        assert str(parse_endpoint(text)) == text
    assert parse_endpoint("example.com", 80) == Endpoint("example.com", 80)
    assert [parse_endpoint(text).authority(80) for text in ("a:80", "a:81", "[::1]:80")] == ["a", "a:81", "[::1]"]


def test_an_endpoint_without_a_port_or_a_default_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="the port is missing"):
        parse_endpoint("example.com")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "fd00:ec2::254"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "64:ff9b::6464:64c8"),
        "192.0.0.192",
    ],
)
def test_a_public_name_does_not_lead_to_this_machine_its_link_or_metadata(address: str) -> None:
    assert not may_lead_to("example.com", address)
    assert not may_lead_to("localhost.example.com", address)
    assert not may_lead_to("notlocalhost", address)


@pytest.mark.parametrize(
    "address", ["192.0.2.1", "10.0.0.1", "192.168.1.1", "2001:db8::1", "fd00::1", "64:ff9b::c000:201"]
)
def test_a_name_may_lead_to_public_and_private_networks(address: str) -> None:
    assert may_lead_to("example.com", address)


def test_localhost_may_lead_to_this_machine_and_not_to_its_link() -> None:
    for name in ("localhost", "api.localhost"):
        assert may_lead_to(name, "127.0.0.1")
        assert may_lead_to(name, "::1")
        assert not may_lead_to(name, "169.254.169.254")
