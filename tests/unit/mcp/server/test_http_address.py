"""Which addresses are served, and which need a token."""

from __future__ import annotations

import asyncio
import socket

import pytest

from toolrun import ConfigError
from toolrun.mcp.server.http_address import Address, listen, read_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8000", "127.0.0.1", 8000),
        (":8000", "127.0.0.1", 8000),
        ("localhost:0", "localhost", 0),
        ("127.0.0.2:80", "127.0.0.2", 80),
        ("[::1]:8000", "::1", 8000),
        ("::1:8000", "::1", 8000),
    ],
)
def test_loopback_needs_no_token(text: str, host: str, port: int) -> None:
    address = read_address(text, "", ())
    assert (address.host, address.port, address.is_loopback) == (host, port, True)


@pytest.mark.parametrize("text", ["0.0.0.0:80", "[::]:80", "192.168.1.5:80", "home.example:80", "localhost.example:80"])
def test_beyond_loopback_there_must_be_a_token(text: str) -> None:
    with pytest.raises(ConfigError, match=r"others could call your tools there. Leave out --no-token.*--http 80"):
        read_address(text, "", ())
    assert not read_address(text, "secret", ()).is_loopback


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "70000", "1.5", "-1", "8000 "])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this is not an address; write --http 8000"):
        read_address(text, "", ())


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another port"):
            listen(Address("127.0.0.1", port))


async def test_answers_are_sent_at_once() -> None:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen(Address("127.0.0.1", 0)) as listening:
        async with await asyncio.start_server(note, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            assert await asyncio.wait_for(accepted, 30) != 0
            writer.close()


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://app.example", "https://app.example"),
        ("HTTPS://App.Example/", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:443", "http://app.example:443"),
        ("http://localhost:5173", "http://localhost:5173"),
        ("http://[::1]:80", "http://[::1]"),
        ("moz-extension://abc", "moz-extension://abc"),
    ],
)
def test_origins_are_kept_as_browsers_write_them(text: str, origin: str) -> None:
    assert read_address("8000", "", (), [text]).allow_origins == (origin,)


@pytest.mark.parametrize(
    "text", ["", "app.example", "https://", "https://app.example/path", "https://a@b", "http://[", "null", "http://a:x"]
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"this is not an origin; write it like https://app\.example"):
        read_address("8000", "", (), [text])


def test_all_origins_need_a_token() -> None:
    with pytest.raises(ConfigError, match="any web page could call your tools"):
        read_address("8000", "", (), ["*"])
    assert read_address("8000", "secret", (), ["*"]).allow_origins == ("*",)
