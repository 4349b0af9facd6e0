"""The proxy of a sandboxed worker, with real clients and servers on the loopback interface."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import http.client
import os
import socket
import stat
import struct
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from faults.bench import LIMIT
from support.forked import in_a_child
from toolrun.processes.sandbox import network_proxy
from toolrun.processes.sandbox.network_proxy import NetworkProxy, ProxyLimits

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Names = dict[str, list[str]]


@dataclass(frozen=True)
class Proxied:
    proxy: NetworkProxy
    port: int
    refused: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def proxied(*allowed: str, **limits: Any) -> AsyncIterator[Proxied]:
    refused: list[str] = []
    proxy = NetworkProxy(allowed, refused.append, ProxyLimits(**limits))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    proxy.serve(listening)
    try:
        async with asyncio.timeout(LIMIT):
            yield Proxied(proxy, port, refused)
    finally:
        await proxy.close()


@asynccontextmanager
async def server(handle: Handler) -> AsyncIterator[int]:
    """A server for one test, at the port that is yielded."""
    tasks: set[asyncio.Task[Any] | None] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(asyncio.CancelledError, OSError):
            await handle(reader, writer)
        writer.close()
        with suppress(asyncio.CancelledError, OSError):
            await writer.wait_closed()

    listening = await asyncio.start_server(run, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        running = [task for task in tasks if task is not None and not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ask(port: int, request: bytes) -> bytes:
    """What the proxy answers, up to the end of the connection."""
    async with connection(port) as (reader, writer):
        writer.write(request)
        return await reader.read()


@asynccontextmanager
async def tunnel(proxy: int, target: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with connection(proxy) as (reader, writer):
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        yield reader, writer


async def round_trip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"


async def all_ended() -> None:
    """Wait for the tasks of a proxy that was aborted."""
    if tasks := [task for task in asyncio.all_tasks() if task.get_name() == "toolrun network proxy"]:
        _, running = await asyncio.wait(tasks, timeout=LIMIT)
        assert not running


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


def answering(
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", seen: list[bytes] | None = None
) -> Handler:
    """Answers each request on a connection; keeps the connection as HTTP/1.1 does, whatever the client asks for."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            body = b""
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    body = await reader.readexactly(int(line[15:]))
                elif line == b"transfer-encoding: chunked":
                    body = await reader.readuntil(b"0\r\n\r\n")
            if seen is not None:
                seen.append(head + body)
            writer.write(answer)
            await writer.drain()

    return handle


def saying(answer: bytes) -> Handler:
    """Answers one request, with anything, and closes the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    return handle


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


MALFORMED = {
    "nothing": b"\r\n\r\n",
    "an origin form": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another scheme": b"GET https://localhost/ HTTP/1.1\r\n\r\n",
    "no version": b"GET http://localhost/\r\n\r\n",
    "another version": b"PRI * HTTP/2.0\r\n\r\n",
    "user and password": b"GET http://user:pass@localhost/ HTTP/1.1\r\n\r\n",
    "a user in a tunnel": b"CONNECT user@localhost:80 HTTP/1.1\r\n\r\n",
    "a fragment": b"GET http://localhost/#there HTTP/1.1\r\n\r\n",
    "a space": b"GET http://localhost/a b HTTP/1.1\r\n\r\n",
    "two spaces": b"GET  http://localhost/ HTTP/1.1\r\n\r\n",
    "a tab": b"GET\thttp://localhost/ HTTP/1.1\r\n\r\n",
    "a zero byte": b"GET http://localhost\0.evil.example/ HTTP/1.1\r\n\r\n",
    "a zero byte in a header": b"GET http://localhost/ HTTP/1.1\r\nA: b\0\r\n\r\n",
    "a backslash": b"GET http://localhost\\@evil.example/ HTTP/1.1\r\n\r\n",
    "an escape": b"GET http://%6cocalhost/ HTTP/1.1\r\n\r\n",
    "no host": b"GET http:///path HTTP/1.1\r\n\r\n",
    "bytes beyond ASCII": b"CONNECT l\xc3\xb6calhost:80 HTTP/1.1\r\n\r\n",
    "no port": b"CONNECT localhost HTTP/1.1\r\n\r\n",
    "an empty port": b"CONNECT localhost: HTTP/1.1\r\n\r\n",
    "port 0": b"CONNECT localhost:0 HTTP/1.1\r\n\r\n",
    "a large port": b"CONNECT localhost:65616 HTTP/1.1\r\n\r\n",
    "a huge port": b"CONNECT localhost:" + b"9" * 5000 + b" HTTP/1.1\r\n\r\n",
    "a negative port": b"CONNECT localhost:-80 HTTP/1.1\r\n\r\n",
    "an octal address": b"CONNECT 0177.0.0.1:80 HTTP/1.1\r\n\r\n",
    "bare line feeds": b"GET http://localhost/ HTTP/1.1\nHost: localhost\n\n",
    "one bare line feed": b"GET http://localhost/ HTTP/1.1\r\nA: b\nHost: localhost\r\n\r\n",
    "a bare carriage return": b"GET http://localhost/ HTTP/1.1\r\nA: b\rHost: localhost\r\n\r\n",
    "two hosts": b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n",
    "a folded header": b"GET http://localhost/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    "a space before the colon": b"GET http://localhost/ HTTP/1.1\r\nContent-Length : 3\r\n\r\n",
    "no colon": b"GET http://localhost/ HTTP/1.1\r\nrubbish\r\n\r\n",
    "length and chunks": b"POST http://localhost/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two lengths": b"POST http://localhost/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
    "a list of lengths": b"POST http://localhost/ HTTP/1.1\r\nContent-Length: 3, 4\r\n\r\n",
    "a signed length": b"POST http://localhost/ HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
    "another encoding": b"POST http://localhost/ HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
    "chunks in HTTP/1.0": b"POST http://localhost/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_is_a_bad_request(request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with proxied("localhost:*", "127.0.0.1:*") as it:
        answer = await ask(it.port, request_)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.partition(b"\r\n\r\n")[2].decode().strip().isprintable()
    assert (it.refused, caplog.records) == ([], [])


@pytest.mark.parametrize(
    "line", [b"A: " + b"x" * 20_000, b"\r\n".join([b"A: b"] * 4000)], ids=["one line", "many lines"]
)
async def test_a_head_that_is_too_long_is_refused(line: bytes) -> None:
    async with proxied("localhost") as it:
        answer = await ask(it.port, b"GET http://localhost/ HTTP/1.1\r\n" + line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answer.endswith(b"The head of the request has more than 16384 bytes.\n")


async def test_a_head_that_takes_too_long_is_refused() -> None:
    async with proxied("localhost", head_timeout=0.01) as it:
        answer = await ask(it.port, b"GET http://localhost/ HTTP/1.1\r\n")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_a_client_that_leaves_early_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with server(echo) as port, proxied(f"localhost:{port}") as it:
        for start in (b"", b"CONNECT", b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port):
            async with connection(it.port) as (_, writer):
                writer.write(start)
                await writer.drain()
                reset(writer)
        async with connection(it.port) as (reader, writer):
            writer.write(b"CONNECT localhost:80 HTTP/1.1\r\n")
            writer.write_eof()
            assert (await reader.read()).endswith(b"its head has no end.\n")
        async with tunnel(it.port, f"localhost:{port}") as stream:
            await round_trip(*stream)
    assert caplog.records == []


async def test_the_end_of_a_request_does_not_end_its_answer() -> None:
    async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(hashlib.sha256(await reader.read()).digest())

    data = os.urandom(2_000_000)
    async with (
        server(digest) as port,
        proxied(f"localhost:{port}") as it,
        tunnel(it.port, f"localhost:{port}") as (reader, writer),
    ):
        writer.write(data)
        writer.write_eof()
        assert await reader.read() == hashlib.sha256(data).digest()


async def test_the_end_of_an_answer_does_not_end_the_request() -> None:
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        received.set_result(await reader.read())

    async with (
        server(read_on) as port,
        proxied(f"localhost:{port}") as it,
        tunnel(it.port, f"localhost:{port}") as (reader, writer),
    ):
        assert await reader.read() == b""
        writer.write(b"more")
        writer.write_eof()
        assert await received == b"more"


async def test_a_slow_reader_gets_two_megabytes_whole() -> None:
    data = os.urandom(2_000_000)
    async with server(saying(b"HTTP/1.1 200 OK\r\n\r\n" + data)) as port, proxied(f"localhost:{port}") as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port, limit=500)
        writer.write(b"GET http://localhost:%d/ HTTP/1.1\r\n\r\n" % port)
        head = await reader.readuntil(b"\r\n\r\n")
        found = bytearray()
        while piece := await reader.read(1000):
            found += piece
        writer.close()
        await writer.wait_closed()
    assert head == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    assert found == data


async def test_a_client_that_does_not_read_holds_the_server_back() -> None:
    """Whatever the proxy can take, it has taken when the server sends nothing during twenty round trips."""
    sent = 0
    enough = 1 << 28

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while sent < enough:
            writer.write(bytes(1 << 16))
            await writer.drain()
            sent += 1 << 16

    async with (
        server(flood) as flooding,
        server(echo) as echoing,
        proxied("localhost:*") as it,
        tunnel(it.port, f"localhost:{flooding}"),
        tunnel(it.port, f"localhost:{echoing}") as stream,
    ):
        before, quiet = -1, 0
        while quiet < 20:
            await round_trip(*stream)
            before, quiet = sent, quiet + 1 if sent == before else 0
        assert 0 < sent < enough


async def test_an_answer_that_breaks_off_does_not_look_complete() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\npart")
        await reader.readexactly(1)
        reset(writer)

    async with (
        server(break_off) as port,
        proxied(f"localhost:{port}") as it,
        connection(it.port) as (reader, writer),
    ):
        writer.write(b"GET http://localhost:%d/ HTTP/1.1\r\n\r\n" % port)
        assert (await reader.readuntil(b"part")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.write(b"!")
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_an_interim_answer_is_passed_on_before_the_body_is_sent() -> None:
    async def patient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + await reader.readexactly(2))

    async with server(patient) as port, proxied(f"localhost:{port}") as it, connection(it.port) as (reader, writer):
        head = f"POST http://localhost:{port}/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        writer.write(head.encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        writer.write_eof()
        assert await reader.read() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed the connection without an answer."),
        (b"rubbish\r\n\r\n", "is not HTTP/1, or its head is too long."),
        (b"HTTP/1.1 200 OK\r\nA: b", "is not HTTP/1, or its head is too long."),
        (b"HTTP/1.1 200 OK\r\nA: b\rB: c\r\n\r\n", "is not HTTP/1, or its head is too long."),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "is not HTTP/1, or its head is too long."),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n", "is not HTTP/1, or its head is too long."),
    ],
    ids=["nothing", "rubbish", "half a head", "a bare carriage return", "a folded header", "a long head"],
)
async def test_an_answer_that_is_not_http_is_a_bad_gateway(answer: bytes, words: str) -> None:
    async with server(saying(answer)) as port, proxied(f"localhost:{port}") as it:
        answer = await ask(it.port, b"GET http://localhost:%d/ HTTP/1.1\r\n\r\n" % port)
    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert words in answer.decode()


async def test_an_old_server_may_end_its_lines_with_line_feeds() -> None:
    old = b"HTTP/1.0 200 OK\nConnection: keep-alive\nA: b\n\nhi"
    async with server(saying(old)) as port, proxied(f"localhost:{port}") as it:
        answer = await ask(it.port, b"GET http://localhost:%d/ HTTP/1.0\r\n\r\n" % port)
    assert answer == b"HTTP/1.0 200 OK\r\nA: b\r\nConnection: close\r\n\r\nhi"


async def test_a_connection_beyond_the_limit_waits_for_another_to_end() -> None:
    async with server(echo) as port, proxied(f"localhost:{port}", connections=1) as it:
        async with tunnel(it.port, f"localhost:{port}") as stream:
            waiting = asyncio.create_task(ask(it.port, b"GET / HTTP/1.1\r\n\r\n"))
            for _ in range(20):
                await round_trip(*stream)
            assert not waiting.done()
        assert (await waiting).startswith(b"HTTP/1.1 400 ")


async def test_a_proxy_accepts_again_after_the_system_had_no_descriptor_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exhausted(socket.socket):
        failures = 1

        def accept(self) -> tuple[socket.socket, Any]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(network_proxy, "_ACCEPT_PAUSE", 0.01)
    listening = Exhausted()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    proxy = NetworkProxy([], lambda _: None)
    port = listening.getsockname()[1]
    proxy.serve(listening)
    assert (await ask(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    await proxy.close()
    assert listening.failures == 0


@pytest.mark.parametrize("rounds", range(20))
async def test_an_abort_at_any_moment_leaves_nothing(rounds: int) -> None:
    """The fixture for every test looks for tasks and descriptors."""
    proxy = NetworkProxy(["127.0.0.1:*"], lambda _: None)
    listening = socket.create_server(("127.0.0.1", 0))
    async with server(answering()) as port, connection(listening.getsockname()[1]) as (reader, writer):
        proxy.serve(listening)
        writer.write(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % port)
        for _ in range(rounds):
            await asyncio.sleep(0)
        proxy.abort()
        assert listening.fileno() == -1
        await all_ended()
        with suppress(ConnectionResetError):
            await reader.read()


@pytest.mark.parametrize("how", ["abort", "close"])
async def test_the_end_of_the_proxy_resets_idle_tunnels_at_both_ends(how: str) -> None:
    ended: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def wait_for_end(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        try:
            ended.set_result(await reader.read())
        except ConnectionResetError:
            ended.set_result(None)

    async with (
        server(wait_for_end) as port,
        proxied(f"localhost:{port}") as it,
        tunnel(it.port, f"localhost:{port}") as (reader, _),
    ):
        if how == "abort":
            it.proxy.abort()
            await all_ended()
        else:
            await it.proxy.close()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert await ended is None


async def test_a_proxy_that_has_ended_closes_the_socket_that_it_gets() -> None:
    proxy = NetworkProxy([], lambda _: None)
    proxy.abort()
    listening = socket.create_server(("127.0.0.1", 0))
    proxy.serve(listening)
    assert listening.fileno() == -1
    await proxy.close()


async def test_a_proxy_serves_one_socket() -> None:
    async with proxied() as it:
        with socket.create_server(("127.0.0.1", 0)) as another, pytest.raises(RuntimeError, match="one proxy for each"):
            it.proxy.serve(another)


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
