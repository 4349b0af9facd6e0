"""The proxy of a sandboxed worker, with servers and connections on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from faults.bench import LIMIT
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
