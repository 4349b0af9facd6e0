"""Who may ask over HTTP, by the head of the request."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from toolrun.mcp.server.http_address import Address
from toolrun.mcp.server.http_guard import Guard


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
