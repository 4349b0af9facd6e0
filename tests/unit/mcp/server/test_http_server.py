"""Who may ask over HTTP, by the head of the request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from toolrun import ConfigError
from toolrun.mcp.server.http_server import Address, Guard, listen, read_address


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
    with pytest.raises(ConfigError, match=r"Set a token.*TOOLRUN_SERVE_TOKEN=.*--http 80"):
        read_address(text, "", ())
    assert not read_address(text, "secret", ()).is_loopback


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "70000", "1.5", "-1", "8000 "])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this is no address; write --http 8000"):
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


async def ask(address: Address, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Status and body; 200 where the request was passed on."""
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("nothing of the body is read before")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    encoded = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    await Guard(app, address)({"type": "http", "method": method, "headers": encoded}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    return sent[0]["status"], orjson.loads(sent[1]["body"]).get("error", "")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "tools.example:443"])
async def test_names_of_the_server_are_taken(host: str) -> None:
    address = Address("127.0.0.1", 8000, allowed_hosts=("tools.example",))
    assert (await ask(address, host=host, content_type="application/json; charset=utf-8"))[0] == 200
    assert (await ask(address, host=host, origin=f"https://{host}", **JSON_HEADERS))[0] == 200


JSON_HEADERS = {"content_type": "application/json"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil", ""])
async def test_other_names_are_not(host: str) -> None:
    status, reason = await ask(Address("127.0.0.1", 8000), host=host, **JSON_HEADERS)
    assert status == 421
    assert "--allowed-host" in reason


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://localhost.evil.example:8000"])
async def test_pages_from_elsewhere_are_refused(origin: str) -> None:
    status, _ = await ask(Address("127.0.0.1", 8000), host="localhost", origin=origin, **JSON_HEADERS)
    assert status == 403


@pytest.mark.parametrize("content_type", ["text/plain", "application/jsonp", "", "multipart/form-data"])
async def test_only_json_is_taken(content_type: str) -> None:
    status, _ = await ask(Address("127.0.0.1", 8000), host="localhost", content_type=content_type)
    assert status == 415
    assert (await ask(Address("127.0.0.1", 8000), "GET", host="localhost"))[0] == 200


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "bearer secret", "secret", "Bearer ö"])
async def test_a_wrong_token_is_refused_before_anything_else(given: str) -> None:
    address = Address("0.0.0.0", 8000, token="secret")
    assert (await ask(address, host="evil.example", authorization=given))[0] == 401
    assert (await ask(address, host="evil.example"))[0] == 401
    assert (await ask(address, host="localhost", authorization="Bearer secret", **JSON_HEADERS))[0] == 200
