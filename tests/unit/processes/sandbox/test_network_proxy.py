"""The proxy of a sandboxed worker, with real clients and servers on the loopback interface."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from faults.bench import LIMIT
from support.forked import in_a_child
from support.proxied import Names, answering, ask, connection, echo, proxied, round_trip, server, tunnel
from toolrun.processes.sandbox.network_proxy import NetworkProxy


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """What names resolve to in this test; others do not exist."""
    known: Names = {}

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (it, port, 0, 0))
            if ":" in it
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (it, port))
            for it in known[host]
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    return known


@pytest.fixture(autouse=True)
def no_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of the standard library go past a proxy for what this variable names."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def test_urllib_reads_a_page_and_posts_a_form() -> None:
    seen: list[bytes] = []
    async with server(answering(seen=seen)) as port, proxied(f"localhost:{port}") as it:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": it.url}))

        def talk() -> list[bytes]:
            url = f"http://localhost:{port}/path?q=1"
            with opener.open(url, timeout=LIMIT) as page, opener.open(url, b"a=1", timeout=LIMIT) as posted:
                return [page.read(), posted.read()]

        assert await asyncio.to_thread(talk) == [b"ok", b"ok"]
    assert seen[0].startswith(b"GET /path?q=1 HTTP/1.1\r\n")
    assert seen[1].endswith(b"\r\n\r\na=1")
    assert it.refused == []


async def test_http_client_talks_through_a_tunnel() -> None:
    async with server(answering()) as port, proxied(f"127.0.0.1:{port}") as it:

        def talk() -> list[bytes]:
            client = http.client.HTTPConnection("127.0.0.1", it.port, timeout=LIMIT)
            client.set_tunnel("127.0.0.1", port)
            bodies = []
            for _ in range(2):
                client.request("GET", "/")
                bodies.append(client.getresponse().read())
            client.close()
            return bodies

        assert await asyncio.to_thread(talk) == [b"ok", b"ok"]


async def test_httpx_sends_a_body_of_unknown_length() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        yield b"second"

    seen: list[bytes] = []
    async with server(answering(seen=seen)) as port, proxied(f"localhost:{port}") as it:
        async with httpx.AsyncClient(proxy=it.url, trust_env=False, timeout=LIMIT) as client:
            answer = await client.post(f"http://localhost:{port}/", content=parts())
        assert (answer.status_code, answer.text) == (200, "ok")
    assert seen[0].endswith(b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n")


async def test_a_client_never_sends_a_request_to_the_server_of_the_one_before() -> None:
    """Both servers keep their connections, and clients have one pool for all plain requests through a proxy."""
    first: list[bytes] = []
    second: list[bytes] = []
    kept = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=60\r\nContent-Length: 2\r\n\r\nok"
    async with (
        server(answering(kept, first)) as one,
        server(answering(kept, second)) as other,
        proxied("localhost:*") as it,
        httpx.AsyncClient(proxy=it.url, trust_env=False, timeout=LIMIT) as client,
    ):
        for port in (one, other, one):
            answer = await client.get(f"http://localhost:{port}/{port}")
            assert (answer.headers.get_list("connection"), answer.headers.get("keep-alive")) == (["close"], None)
    assert [it.split()[1] for it in first] == [f"/{one}".encode()] * 2
    assert [it.split()[1] for it in second] == [f"/{other}".encode()]


async def test_the_request_line_decides_and_headers_for_the_proxy_stay_here() -> None:
    seen: list[bytes] = []
    async with server(answering(seen=seen)) as port, proxied(f"localhost:{port}") as it:
        request = (
            f"GET http://LOCALHOST.:{port}?q HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: Basic eDp5\r\n"
            "Proxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop, Content-Length\r\nX-Hop: 1\r\n"
            "Content-Length: 2\r\nUpgrade: h2c\r\nAccept: a\r\n\r\nhi"
        )
        async with connection(it.port) as (reader, writer):
            writer.write(request.encode())
            writer.write_eof()
            answer = await reader.read()
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    head = (
        f"GET /?q HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 2\r\nAccept: a\r\nConnection: close\r\n\r\nhi"
    )
    assert seen == [head.encode()]


@pytest.mark.parametrize("method", ["CONNECT", "GET"])
async def test_a_host_that_is_not_allowed_is_refused_and_reported_once(method: str) -> None:
    async with proxied("example.com", "*.example.org:443") as it:
        for host in ("evil.example:443", "EVIL.example.:443", "example.org:443", "example.com:8080", "[::1]:80"):
            target = host if method == "CONNECT" else f"http://{host}/"
            answer = await ask(it.port, f"{method} {target} HTTP/1.1\r\n\r\n".encode())
            head, _, body = answer.decode().partition("\r\n\r\n")
            named = host.lower().replace(".:", ":")
            assert head.startswith("HTTP/1.1 403 Forbidden by the sandbox\r\n")
            assert body == f"The sandbox stopped the connection to {named}: no entry of 'net' allows it.\n"
    assert it.refused == ["evil.example:443", "example.org:443", "example.com:8080", "[::1]:80"]


async def test_a_refusal_reaches_a_client_that_still_sends_its_body() -> None:
    async with proxied() as it:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": it.url}))
        with pytest.raises(urllib.error.HTTPError) as caught:
            await asyncio.to_thread(opener.open, "http://evil.example/", b"x" * 2_000_000, LIMIT)
        with caught.value as answer:
            assert (answer.code, b"evil.example:80" in answer.read()) == (403, True)


async def test_reports_end_after_a_thousand_names_and_a_failing_listener_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    def listen(entry: str) -> None:
        heard.append(entry)
        if entry.startswith("0.secret"):
            raise LookupError(entry)

    proxy = NetworkProxy([], listen)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    proxy.serve(listening)
    with suppress(ConnectionResetError):
        await ask(port, b"CONNECT 0.secret.example:443 HTTP/1.1\r\n\r\n")
    for number in range(1, 1005):
        assert b" 403 " in await ask(port, b"CONNECT %d.example:443 HTTP/1.1\r\n\r\n" % number)
    await proxy.close()
    assert len(heard) == 1000
    assert [it.getMessage() for it in caplog.records if it.name == "toolrun.sandbox"] == [
        "The network proxy of the sandbox dropped a connection: LookupError."
    ]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "169.254.169.254", "fe80::1%lo", "0.0.0.0", "224.0.0.1", "::ffff:169.254.169.254"]
)
async def test_an_allowed_name_that_leads_to_this_machine_or_its_link_is_refused(names: Names, address: str) -> None:
    names["rebound.example"] = [address]
    async with proxied("rebound.example") as it:
        answer = await ask(it.port, b"GET http://rebound.example/latest/meta-data HTTP/1.1\r\n\r\n")
    plain = address.removeprefix("::ffff:").removesuffix("%lo")
    entry = f"[{plain}]:80" if ":" in plain else f"{plain}:80"
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"the name leads to {plain}, and no entry of 'net' allows {entry}." in answer.decode()
    assert it.refused == [entry]


async def test_a_name_may_lead_to_an_address_that_is_allowed_itself(names: Names) -> None:
    names["rebound.example"] = ["169.254.169.254", "127.0.0.1"]
    async with (
        server(echo) as port,
        proxied(f"rebound.example:{port}", f"127.0.0.1:{port}") as it,
        tunnel(it.port, f"rebound.example:{port}") as stream,
    ):
        await round_trip(*stream)
    assert it.refused == []


async def test_the_next_address_is_tried_if_one_does_not_work(names: Names) -> None:
    names["api.localhost"] = ["::1", "127.0.0.2", "127.0.0.1"]
    async with (
        server(echo) as port,
        proxied("*.localhost:*") as it,
        tunnel(it.port, f"api.localhost:{port}") as stream,
    ):
        await round_trip(*stream)


async def test_a_server_that_cannot_be_reached_is_a_bad_gateway(names: Names) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with proxied("unknown.example", f"127.0.0.1:{port}") as it:
        unknown = await ask(it.port, b"GET http://unknown.example/ HTTP/1.1\r\n\r\n")
        refused = await ask(it.port, b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
    assert unknown.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert unknown.endswith(b"cannot resolve unknown.example: Name or service not known.\n")
    assert refused.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert refused.endswith(b"cannot connect to 127.0.0.1:%d: Connection refused.\n" % port)


@pytest.mark.parametrize("silent", ["getaddrinfo", "sock_connect"])
async def test_a_server_or_name_server_that_does_not_answer_is_a_gateway_timeout(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    async with proxied("localhost", connect_timeout=0.01) as it, connection(it.port) as (reader, writer):
        monkeypatch.setattr(asyncio.get_running_loop(), silent, never)
        writer.write(b"CONNECT localhost:80 HTTP/1.1\r\n\r\n")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
    assert b" localhost" in answer
    assert it.refused == []


def test_a_malformed_pattern_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="Host pattern 'http://x' is malformed"):
        NetworkProxy(["http://x"], lambda _: None)


async def test_a_forked_child_has_no_socket_of_the_proxy() -> None:
    async with (
        server(echo) as port,
        proxied(f"localhost:{port}") as it,
        tunnel(it.port, f"localhost:{port}") as stream,
    ):
        await round_trip(*stream)

        def ends() -> int:
            """The sockets that listen or are connected at the port of the proxy, or are connected to the server."""
            count = 0
            for number in range(3, 256):
                with suppress(OSError):
                    if not stat.S_ISSOCK(os.fstat(number).st_mode):
                        continue
                    with socket.socket(fileno=os.dup(number)) as copy:
                        if copy.family == socket.AF_INET:
                            count += copy.getsockname()[1] == it.port
                            count += copy.getpeername()[1] == port
            return count

        assert ends() == 3
        assert in_a_child(ends) == "0"
        await round_trip(*stream)
