"""HTTP answers with a status of failure: what is kept of them, whatever their body is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import loads
from toolrun.mcp.client import http_error
from toolrun.mcp.client.http_error import MAX_BODY, HttpError, read_http_error

OAUTH = {"error": "invalid_token", "error_description": "The access token expired"}
OAUTH_WORDS = "invalid_token: The access token expired"
RPC = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no such room", "data": {"room": 7}}}
PAGE = b"<html><head><title>502 Bad\n Gateway</title><style>p {}</style></head><body><p>nginx</p></body></html>"

KEYS = st.sampled_from(["error", "errors", "data", "detail", "message", "error_description"])


def error(status: int, body: object = b"", **headers: str) -> HttpError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_http_error(status, {name.replace("_", "-"): value for name, value in headers.items()}, data)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (OAUTH, "invalid_token: The access token expired"),
        ({"error_description": "expired"}, "expired"),
        ({"error": "nope"}, "nope"),
        ({"error": {"message": "no key"}}, "no key"),
        ({"message": "no key", "detail": "other"}, "no key"),
        ({"type": "about:blank", "title": "Out of credit"}, "Out of credit"),
        ({"detail": [{"loc": []}]}, ""),
        (RPC, "no such room"),
        ("text", "text"),
        ([1], ""),
        ({"jsonrpc": "2.0", "error": {"code": 1, "message": "no", "data": OAUTH}}, f"no: {OAUTH_WORDS}"),
        ({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}, "error_description": "expired"}, "expired: no"),
        ({"errors": [{"message": "bad"}, {"message": "worse"}]}, "bad: worse"),
        ({"errors": ["bad"]}, "bad"),
        ([OAUTH], OAUTH_WORDS),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, "field required"),
        ({"error": "same", "message": "same"}, "same"),
        (json.dumps(OAUTH).encode("utf-8-sig"), OAUTH_WORDS),
        (json.dumps(OAUTH).encode("utf-16"), OAUTH_WORDS),
        (json.dumps(OAUTH).encode("utf-32-be"), OAUTH_WORDS),
        (PAGE, "502 Bad Gateway"),
        (b"<p>Sign <b>in</b>&amp; go</p><script>x()</script>", "Sign in & go"),
        (b"plain\n\x1b[31mwords\x00", "plain \\x1b[31mwords\\x00"),
        (b"", ""),
        (b"\xff\xff", "\ufffd\ufffd"),
        (b'{"error": "cut o', '{"error": "cut o'),
        (json.dumps(OAUTH | {"trace": "x" * 600_000}).encode(), OAUTH_WORDS),
        (b"x" * 100_000, "x" * 299 + "…"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_body_gives_its_words(body: object, words: str) -> None:
    assert error(500, body).words == words
    assert error(500, body).summary == "HTTP 500 Internal Server Error" + (f": {words}" if words else "")


@pytest.mark.parametrize("body", [b"", OAUTH, RPC, PAGE, b"x" * 100_000], ids=["empty", "oauth", "rpc", "page", "huge"])
def test_status_and_headers_are_kept_with_every_body(body: object) -> None:
    found = error(401, body, www_authenticate='Bearer realm="x"', retry_after="30", server="nginx")
    assert found.status == 401
    assert found.is_refusal
    assert found.summary.startswith(
        'sign in needed (HTTP 401 Unauthorized; WWW-Authenticate: Bearer realm="x"; Retry-After: 30)'
    )
    assert HttpError.from_dict(json.loads(json.dumps(found.to_dict()))).summary == found.summary


@pytest.mark.parametrize(
    ("status", "is_refusal", "is_gateway"),
    [
        *((status, True, False) for status in (401, 403, 407, 429)),
        *((status, False, True) for status in (502, 503, 504)),
        *((status, False, False) for status in (400, 404, 408, 409, 500)),
    ],
)
def test_only_some_statuses_say_that_nobody_acted(status: int, is_refusal: bool, is_gateway: bool) -> None:
    assert (error(status).is_refusal, error(status).is_unreachable) == (is_refusal, is_gateway)


@pytest.mark.parametrize("status", [*range(300, 309), 350])
def test_a_redirect_is_a_failure_that_says_where_to(status: int) -> None:
    found = error(status, location="https://x/login")
    assert not found.is_refusal
    assert found.summary.startswith(f"redirect not followed (HTTP {status}")
    assert "; Location: https://x/login" in found.summary
    assert "Location" not in error(401, location="https://x/login").summary


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("size", [MAX_BODY - 100, MAX_BODY, 3 * MAX_BODY])
def test_no_more_of_a_body_is_read_than_a_limit(monkeypatch: pytest.MonkeyPatch, size: int, encoding: str) -> None:
    read: list[int] = []

    def measured(text: str) -> Any:
        read.append(len(text))
        return loads(text)

    monkeypatch.setattr(http_error, "loads", measured)
    body = json.dumps(OAUTH | {"rows": [0] * (size // 3)}).encode(encoding)
    assert error(401, body).words == OAUTH_WORDS
    assert max(read) <= MAX_BODY


@given(
    st.recursive(st.none() | st.text(max_size=3), lambda it: st.lists(it) | st.dictionaries(KEYS, it)),
    st.text("ab", min_size=1),
)
def test_a_description_is_found_wherever_errors_are(inner: Any, words: str) -> None:
    place = {"error_description": words}
    for body in (place, [place], {"error": place}, {"errors": [place]}, {"error": {"data": place}}, {"fault": place}):
        assert words in error(401, body).words
    assert "\n" not in error(401, inner).words


def test_a_json_rpc_error_is_the_error() -> None:
    found = error(400, RPC)
    assert (found.code, found.message, found.data) == (-32602, "no such room", {"room": 7})
    assert found.facts == "HTTP 400 Bad Request"
    assert error(599).facts == "HTTP 599"


@given(st.integers(400, 599), st.binary(max_size=50) | st.builds(lambda it: json.dumps(it).encode(), st.from_type(int)))
def test_no_body_fails(status: int, body: bytes) -> None:
    assert str(status) in read_http_error(status, {}, body).summary


@given(
    st.dictionaries(
        st.sampled_from(["error", "error_description", "message", "jsonrpc"]),
        st.none() | st.text(max_size=5) | st.dictionaries(st.sampled_from(["code", "message"]), st.none() | st.text()),
    )
)
def test_no_json_fails(body: dict[str, Any]) -> None:
    assert "\n" not in error(500, body).summary
