"""What goes through the proxy of a sandboxed worker: malformed, slow, broken off or too much; and the proxy's end."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import socket
from contextlib import suppress
from typing import Any

import pytest

from support.proxied import (
    all_ended,
    answering,
    ask,
    connection,
    echo,
    proxied,
    reset,
    round_trip,
    saying,
    server,
    tunnel,
)
from toolrun.processes.sandbox import network_proxy
from toolrun.processes.sandbox.network_proxy import NetworkProxy

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
