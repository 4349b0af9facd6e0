"""Who may ask over HTTP, by the head of the request."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolrun.mcp.server.http_address import Address
from toolrun.mcp.server.http_guard import Guard

Headers = list[tuple[bytes, bytes]]


async def answer(
    address: Address, method: str, headers: Headers, path: str = "/mcp"
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body; 200 where the request was passed on."""
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"mcp-session-id", b"1")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("nothing of the body is read before")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await Guard(app, address, frozenset({"/page"}))(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    found = dict(sent[0]["headers"])
    assert len(found) == len(sent[0]["headers"])
    return sent[0]["status"], found, sent[1]["body"]


def encoded(headers: dict[str, str]) -> Headers:
    return [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]


async def ask(address: Address, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Status and reason."""
    status, _, body = await answer(address, method, encoded(headers))
    return status, orjson.loads(body).get("error", "") if body else ""


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


MALFORMED = [
    "http://[",
    "http://]",
    "http://[::1",
    "http://[x]",
    "//",
    "\xff",
    "http://localhost:x",
    "http://loc\u00e4l",
]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "https://localhost.evil.example:8000", "localhost", *MALFORMED]
)
async def test_pages_from_elsewhere_are_refused(origin: str) -> None:
    status, reason = await ask(Address("127.0.0.1", 8000), host="localhost", origin=origin, **JSON_HEADERS)
    assert status == 403
    assert "--allow-origin" in reason


PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=40)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"host", b"origin", b"authorization", b"content-type", b"access-control-request-method"]),
            PRINTABLE.map(lambda text: text.encode("latin-1"))
            | st.sampled_from(
                [b"localhost", b"Bearer secret", b"http://[", b"application/json", b"https://app.example"]
            ),
        ),
        max_size=6,
    ),
    st.sampled_from(["GET", "POST", "OPTIONS", "DELETE"]),
)
async def test_whatever_the_headers_are_there_is_an_answer(headers: Headers, method: str) -> None:
    address = Address("127.0.0.1", 8000, token="secret", allow_origins=("https://app.example",))
    status, _, _ = await answer(address, method, headers)
    assert status in (200, 204, 400, 401, 403, 415, 421)


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "content-type", "idempotency-key"])
@pytest.mark.parametrize("is_first_good", [True, False])
async def test_a_header_that_decides_is_there_once(name: str, is_first_good: bool) -> None:
    address = Address("127.0.0.1", 8000, token="secret")
    good = {"host": "localhost", "origin": "http://localhost", "authorization": "Bearer secret", **JSON_HEADERS}
    good["idempotency-key"] = "order-17"
    pairs = encoded(good)
    assert (await answer(address, "POST", pairs))[0] == 200
    second = (name.encode(), dict(pairs)[name.encode()] if is_first_good else b"other")
    for doubled in ([*pairs, second], [second, *pairs]):
        status, _, body = await answer(address, "POST", doubled)
        assert (status, f"more than one {name} header" in orjson.loads(body)["error"]) == (400, True)
    assert (await answer(address, "POST", [*pairs, (b"accept", b"a"), (b"accept", b"b")]))[0] == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/jsonp", "", "multipart/form-data"])
async def test_only_json_is_taken(content_type: str) -> None:
    status, _ = await ask(Address("127.0.0.1", 8000), host="localhost", content_type=content_type)
    assert status == 415
    assert (await ask(Address("127.0.0.1", 8000), "GET", host="localhost"))[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "Bearer",
        "Bearer wrong",
        "bearer wrong",
        "Basic secret",
        "secret",
        "Bearersecret",
        "Bearer ö",
        "Bearer SECRET",
    ],
)
async def test_a_wrong_token_is_refused_whatever_name_the_server_is_called_by(sent: str) -> None:
    address = Address("0.0.0.0", 8000, token="secret")
    assert (await ask(address, host="evil.example", authorization=sent))[0] == 401
    assert (await ask(address, host="evil.example"))[0] == 401
    assert (await ask(address, host="localhost", authorization="Bearer secret", **JSON_HEADERS))[0] == 200


@pytest.mark.parametrize("origin", ["http://[", "http://evil.example", "null", "", "ÿ"])
async def test_a_page_from_elsewhere_is_refused_with_and_without_the_token(origin: str) -> None:
    address = Address("127.0.0.1", 8000, token="secret")
    for token in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer secret"}):
        assert (await ask(address, host="localhost", origin=origin, **token, **JSON_HEADERS))[0] == 403


@pytest.mark.parametrize("sent", ["Bearer secret", "bearer secret", "BEARER secret", "bEaReR   secret"])
async def test_the_scheme_of_the_token_may_be_written_in_any_case(sent: str) -> None:
    address = Address("0.0.0.0", 8000, token="secret")
    assert (await ask(address, host="localhost", authorization=sent, **JSON_HEADERS))[0] == 200


APP = Address("127.0.0.1", 8000, token="secret", allow_origins=("https://app.example", "http://localhost:5173"))
QUESTION = {"host": "localhost:8000", "access_control_request_method": "POST"}


@pytest.mark.parametrize("origin", APP.allow_origins)
async def test_a_page_of_an_allowed_origin_may_ask_and_read(origin: str) -> None:
    wanted = "Authorization, content-type,Idempotency-Key, mcp-method, Mcp-Param-City,mcp-session-id, x-other, mcp-\r\n"
    asked = encoded({**QUESTION, "origin": origin, "access_control_request_headers": wanted})
    status, headers, body = await answer(APP, "OPTIONS", asked)
    assert (status, body) == (204, b"")
    assert headers[b"access-control-allow-origin"] == origin.encode()
    assert headers[b"access-control-allow-methods"] == b"GET, POST, DELETE"
    permitted = b"authorization, content-type, idempotency-key, mcp-method, mcp-param-city, mcp-session-id"
    assert headers[b"access-control-allow-headers"] == permitted
    assert headers[b"vary"] == b"origin"
    assert b"access-control-allow-credentials" not in headers

    sent = encoded({"host": "localhost", "origin": origin, "authorization": "Bearer secret", **JSON_HEADERS})
    status, headers, _ = await answer(APP, "POST", sent)
    assert (status, headers[b"access-control-allow-origin"], headers[b"mcp-session-id"]) == (200, origin.encode(), b"1")
    assert b"mcp-session-id" in headers[b"access-control-expose-headers"].split(b", ")
    assert b"www-authenticate" in headers[b"access-control-expose-headers"].split(b", ")

    refused = encoded({"host": "localhost", "origin": origin, **JSON_HEADERS})
    status, headers, _ = await answer(APP, "POST", refused)
    assert (status, headers[b"access-control-allow-origin"]) == (401, origin.encode())


@pytest.mark.parametrize(
    "origin", ["https://app.example:444", "http://app.example", "https://evil.example", "http://localhost", "null", "*"]
)
async def test_other_pages_are_told_nothing(origin: str) -> None:
    for method, more in (("OPTIONS", QUESTION), ("POST", {**JSON_HEADERS, "host": "localhost"})):
        for token in ({}, {"authorization": "Bearer secret"}):
            status, headers, _ = await answer(APP, method, encoded({**more, **token, "origin": origin}))
            assert not [name for name in headers if name.startswith(b"access-control")]
            assert status in ((200, 401, 403) if origin == "http://localhost" else (401, 403))


async def test_a_question_of_a_browser_needs_a_name_of_the_server_too() -> None:
    asked = {**QUESTION, "host": "evil.example", "origin": "https://app.example"}
    assert (await answer(APP, "OPTIONS", encoded(asked)))[0] == 421


async def test_only_the_question_goes_without_the_token() -> None:
    asked = {"host": "localhost", "origin": "https://app.example"}
    assert (await answer(APP, "OPTIONS", encoded(asked)))[0] == 401
    assert (await answer(APP, "DELETE", encoded({**QUESTION, "origin": "https://app.example"})))[0] == 401


async def test_all_origins_may_be_allowed() -> None:
    address = Address("127.0.0.1", 8000, token="secret", allow_origins=("*",))
    status, headers, _ = await answer(address, "OPTIONS", encoded({**QUESTION, "origin": "https://any.example"}))
    assert (status, headers[b"access-control-allow-origin"]) == (204, b"https://any.example")


async def test_a_public_path_needs_no_token_but_a_name_of_the_server_and_a_page_that_may_ask() -> None:
    address = Address("127.0.0.1", 8000, token="secret")
    for headers, status in (
        ({"host": "localhost"}, 200),
        ({"host": "localhost", "authorization": "Bearer wrong"}, 200),
        ({"host": "localhost", "origin": "http://localhost:8000"}, 200),
        ({"host": "localhost", "origin": "http://evil.example"}, 403),
        ({"host": "evil.example"}, 421),
    ):
        assert (await answer(address, "GET", encoded(headers), "/page"))[0] == status
        assert (await answer(address, "GET", encoded(headers), "/page/other"))[0] == (403 if status == 403 else 401)
