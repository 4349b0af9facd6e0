"""Servers over HTTP that refuse, fail and answer with bombs: the caller learns why, and nothing else is harmed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from faults.bench import is_unavailable, until
from faults_mcp.bench import Servers, Web
from toolrun import ErrorKind, SideEffects

OAUTH = json.dumps({"error": "invalid_token", "error_description": "The access token expired"})
RPC = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "The access token expired"}})
GATE = "while not Path({!r}).exists(): time.sleep(0.005)"


@pytest.fixture(params=["http", "sse"])
def web(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Web]:
    with Web(servers.root).running() as web:
        url = web.url if request.param == "http" else web.url.replace("/mcp", "/sse")
        servers.put("web", url=url, transport=request.param)
        yield web


@pytest.fixture
def plain(servers: Servers) -> Iterator[Web]:
    with Web(servers.root).running() as web:
        servers.put("web", url=web.url)
        yield web


def giving(status: int, body: str | bytes, kind: str, **headers: str) -> str:
    """Code that answers with this."""
    data = body if isinstance(body, bytes) else body.encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return f"give({status}, {data!r}, {kind!r}, {named!r}); answer = None"


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (OAUTH, "application/json", "The access token expired"),
        (RPC, "application/json", "The access token expired"),
        ("<html><title>Sign in</title>" + "x" * 1_000_000, "text/html", "Sign in"),
        ("", "text/plain", ""),
    ],
    ids=["oauth", "json-rpc", "huge page", "empty"],
)
@pytest.mark.parametrize(
    ("status", "reason"), [(401, "sign in needed"), (403, "access denied"), (429, "too many requests")]
)
async def test_a_refusal_keeps_its_words_and_headers(
    servers: Servers, plain: Web, status: int, reason: str, body: str, kind: str, words: str
) -> None:
    code = giving(status, body, kind, WWW_Authenticate='Bearer realm="x"', Retry_After="30")
    async with servers.open() as tools:
        result = await tools.fault(code, "do")
        assert is_unavailable(result)
        assert str(result.error).startswith(f"The MCP server 'web' refused the call: {reason} (HTTP {status} ")
        assert 'WWW-Authenticate: Bearer realm="x"; Retry-After: 30' in str(result.error)
        assert words in str(result.error)
        await tools.works("do")
        assert [it["method"] for it in plain.received()].count("initialize") == 1


async def test_a_failure_of_the_server_does_not_say_that_the_tool_did_not_act(servers: Servers, plain: Web) -> None:
    async with servers.open() as tools:
        for status, kind in ((500, ErrorKind.TOOL_ERROR), (502, ErrorKind.UNAVAILABLE), (503, ErrorKind.UNAVAILABLE)):
            result = await tools.fault(giving(status, "<title>down</title>", "text/html", Retry_After="9"), "do")
            assert (result.error_kind, result.side_effects) == (kind, SideEffects.UNKNOWN)
            assert f"HTTP {status}" in str(result.error)
            assert "Retry-After: 9" in str(result.error)
        code = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "half done"}})
        result = await tools.fault(giving(500, code, "application/json"), "do")
        assert (result.error, result.side_effects) == ("half done", SideEffects.UNKNOWN)
        assert "HTTP 500" in result.text


async def test_a_json_rpc_error_keeps_its_meaning_and_the_status(servers: Servers, plain: Web) -> None:
    code = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such room"}})
    async with servers.open() as tools:
        result = await tools.fault(giving(400, code, "application/json"), "do")
        assert (result.error, result.error_kind) == ("no such room", ErrorKind.INVALID_ARGUMENTS)
        assert "HTTP 400 Bad Request" in result.text


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
@pytest.mark.parametrize("location", ["", "https://login.example/?state=secret", "/mcp"])
async def test_a_redirect_does_not_say_that_the_tool_did_not_act(
    servers: Servers, plain: Web, status: int, location: str
) -> None:
    """`/mcp` is where the call was sent to: the server redirects it again and again."""
    async with servers.open() as tools:
        result = await tools.fault(
            giving(status, "", "text/plain", **({"location": location} if location else {})), "do"
        )
        assert (result.error_kind, result.side_effects) == (ErrorKind.TOOL_ERROR, SideEffects.UNKNOWN)
        assert f"redirect not followed (HTTP {status} " in str(result.error)
        assert "secret" not in result.text
        is_followed = location == "/mcp" and status in (307, 308)
        assert [it["method"] for it in plain.received()].count("tools/call") == (2 if is_followed else 1)
        await tools.works("do")


@pytest.mark.parametrize("ping", [0, 400, 404], ids=["", "ping answered 400", "ping answered 404"])
@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_one_failed_request_ends_neither_the_session_nor_other_calls(
    servers: Servers, web: Web, status: int, ping: int
) -> None:
    gate = servers.root / "gate"
    async with servers.open() as tools:
        session = tools.server("web").session
        other = asyncio.create_task(tools.run(GATE.format(str(gate)), "do"))
        await until(lambda: any("gate" in str(it.get("params")) for it in web.received()), "the other call")
        try:
            await tools.run(f"REFUSALS.append({status}); NO_PING += {[ping] if ping else []}", "do")
            result = await tools.run("open('acted', 'w')", "do")
            assert f"HTTP {status}" in result.text
            is_refusal = status == 401
            assert (result.side_effects is SideEffects.NOT_STARTED) == is_refusal
        finally:
            gate.touch()
        assert (await other).success
        await tools.works("do")
        assert tools.server("web").session is session


async def test_a_server_that_wants_a_sign_in_says_so_before_its_tools_are_known(servers: Servers) -> None:
    async with refusing(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n") as url:
        servers.put("web", url=url)
        servers.put("old", url=url, transport="sse")
        async with servers.open() as tools:
            for name in ("web", "old"):
                assert "sign in needed (HTTP 401 Unauthorized; WWW-Authenticate: Bearer)" in tools.server(name).error
            await tools.works()


@asynccontextmanager
async def refusing(answer: bytes) -> AsyncIterator[str]:
    """A server that has one answer to everything, and does not close the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


BOMBS = {
    "gzip": "import gzip; body = gzip.compress({})",
    "deflate": "import zlib; body = zlib.compress({})",
    "gzip, gzip": "import gzip; body = gzip.compress(gzip.compress({}))",
}


@pytest.mark.parametrize("encoding", BOMBS)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_the_limit_is_one_of_decoded_bytes(servers: Servers, plain: Web, encoding: str, kind: str) -> None:
    """100 MB in 100 kB or less; one message may have 16 MB."""
    make = BOMBS[encoding].format("b':' * 100_000_000")
    code = f"{make}\ngive(200, body, {kind!r}, {{'content-encoding': {encoding!r}}}); answer = None"
    async with servers.open() as tools:
        result = await tools.fault(code, "do")
        assert (result.error_kind, result.side_effects) == (ErrorKind.PROTOCOL, SideEffects.UNKNOWN)
        assert "longer than 16,000,000 bytes" in result.text or "encoded several times" in result.text
        await tools.works("do")


async def test_a_bomb_of_events_on_one_line_each_is_limited_too(servers: Servers, plain: Web) -> None:
    code = "import gzip; body = gzip.compress(b':\\n' * 30_000_000)\n"
    code += "give(200, body, 'text/event-stream', {'content-encoding': 'gzip'}); answer = None"
    async with servers.open() as tools:
        result = await tools.fault(code, "do")
        assert "longer than 16,000,000 bytes" in result.text


async def test_an_honest_encoded_answer_is_read(servers: Servers, plain: Web) -> None:
    message = {"jsonrpc": "2.0", "id": "ID", "result": {"content": [{"type": "text", "text": "x" * 1_000_000}]}}
    async with servers.open() as tools:
        for wrapped, kind in (("{}", "application/json"), ("event: message\ndata: {}\n\n", "text/event-stream")):
            code = f"""
                import gzip, json
                body = {wrapped!r}.replace("{{}}", {json.dumps(message)!r}.replace('"ID"', str(number)))
                give(200, gzip.compress(body.encode()), {kind!r}, {{"content-encoding": "gzip"}})
                answer = None
            """
            result = await tools.run(code, "do")
            assert result.result == "x" * 1_000_000
    assert {it["headers"]["accept-encoding"] for it in plain.received()} == {"identity"}


async def test_a_body_that_is_not_what_its_encoding_says_costs_its_own_call(servers: Servers, plain: Web) -> None:
    async with servers.open() as tools:
        for status in (200, 401):
            code = giving(status, b"not gzip", "application/json", Content_Encoding="gzip")
            result = await tools.fault(code, "do")
            assert result.error_kind is (ErrorKind.PROTOCOL if status == 200 else ErrorKind.UNAVAILABLE)
        await tools.works("do")


async def test_the_body_of_a_failure_is_not_waited_for_for_ever(servers: Servers, plain: Web) -> None:
    code = giving(401, b"half", "text/plain", content_length="1000")
    async with servers.open() as tools:
        result = await tools.fault(code, "do", timeout=20)
        assert "sign in needed (HTTP 401 Unauthorized)" in str(result.error)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("size", [0, 1_000_000])
async def test_a_result_with_half_a_character_is_not_lost(servers: Servers, plain: Web, kind: str, size: int) -> None:
    text = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\\ud800' + "b" * size + '"}]}}'
    body = f"event: message\ndata: {text}\n\n" if kind == "text/event-stream" else text
    async with servers.open() as tools:
        code = f"give(200, {body!r}.replace('ID', str(number)).encode(), {kind!r}); answer = None"
        result = await tools.run(code, "do")
        assert result.result == "a\ufffd" + "b" * size
