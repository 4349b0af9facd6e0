"""An HTTP proxy for one sandboxed worker: the only way out of its network namespace, to allowed hosts only.

The worker's side makes the listening socket inside the namespace and passes it to the host; the proxy accepts on it and
connects outwards from the host's own namespace. It serves `CONNECT` and plain `http://` requests, one per connection,
and relays bytes: it knows nothing of TLS, bodies, workers or how the socket came here.

The client is hostile: what it sends is checked before it is used, and never logged. The request line alone decides
where a plain request goes. The proxy adds `Connection: close` to the answer, since a client that keeps the connection
sends its next request, with its credentials, to this server, whatever host it is meant for.

A name has to pass twice: as itself, and as the addresses that it resolves to (`may_lead_to`).
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from toolrun.config.host_pattern import Endpoint, may_lead_to, parse_endpoint, parse_host_pattern
from toolrun.logger import get_logger
from toolrun.processes.forked_child import leave_at_fork, no_fork

logger = get_logger("toolrun.sandbox")

_CHUNK: Final = 1 << 16
_MAX_ANSWER_HEAD: Final = 1 << 16
_ATTEMPT: Final = 3.0  # seconds after which an address that does not answer makes way for the next one
_LOOKUPS: Final = 4  # at a time: each one occupies a thread that the host's own work needs as well
_MAX_REPORTED: Final = 1000  # distinct refusals: a worker can invent names without end
_ACCEPT_PAUSE: Final = 1.0  # seconds, after the system had no descriptor left for a connection
_RESET: Final = struct.pack("ii", 1, 0)

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^\x00-\x20\x7f]+) (HTTP/1\.[01])")
_ABSOLUTE: Final = re.compile(rb"(?i:http)://([^/?#]*)/?([^#]*)")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: .*)?")
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_PER_CONNECTION: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te upgrade http2-settings".split()
)


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """What one worker may ask of its proxy."""

    connections: int = 64
    """At a time. Further ones wait in the backlog of the socket."""
    head_size: int = 16 * 1024
    head_timeout: float = 10.0
    connect_timeout: float = 10.0
    """For the name, and again for the connection."""


USUAL: Final = ProxyLimits()
_Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(eq=False)
class _RefusalError(Exception):
    """The proxy itself answers the request."""

    status: int
    text: str


class NetworkProxy:
    """Lets one worker reach the hosts that the patterns allow. Belongs to the event loop that `serve` is called on.

    `on_refused` gets each `host:port` that was refused, once. For a name that leads to a forbidden address this is the
    address, since an entry for it would allow the connection.
    """

    def __init__(self, allowed: Sequence[str], on_refused: Callable[[str], None], limits: ProxyLimits = USUAL) -> None:
        self._patterns = tuple(map(parse_host_pattern, allowed))
        self._on_refused = on_refused
        self._limits = limits
        self._reported: set[str] = set()
        self._lookups = asyncio.Semaphore(_LOOKUPS)
        self._listening: socket.socket | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each connection of the client."""
        self._sockets: set[socket.socket] = set()
        """All but the listening one."""

    def serve(self, listening: socket.socket) -> None:
        """Accept connections on a socket, which belongs to the proxy from now on. A closed proxy closes the socket.

        No untrusted code may have a descriptor of it: whether `accept` blocks is a property that all copies share.
        """
        if self._is_closed:
            listening.close()
            return
        if self._listening is not None:
            raise RuntimeError("The network proxy serves a socket already; make one proxy for each worker.")
        listening.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._resume()
        leave_at_fork(self)

    async def close(self) -> None:
        """Close the socket and all connections, and wait until nothing is left of them."""
        self.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def abort(self) -> None:
        """Close the socket now; the event loop ends the connections with a reset as soon as it runs."""
        self._is_closed = True
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for task in self._tasks:
            task.cancel()

    def leave_to_parent(self) -> None:
        """In a child that was forked. Nothing is unregistered: the child shares the parent's selector."""
        for sock in self._sockets:
            sock.close()
        if self._listening is not None:
            self._listening.close()

    def _resume(self) -> None:
        if self._listening is not None and len(self._tasks) < self._limits.connections:
            self._loop.add_reader(self._listening, self._accept, self._listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            with no_fork:
                sock, _ = listening.accept()
                self._sockets.add(sock)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # most likely no descriptor left: the socket stays readable, and would keep the loop busy
            self._loop.remove_reader(listening)
            self._loop.call_later(_ACCEPT_PAUSE, self._resume)
            return
        task = self._loop.create_task(self._handle(sock), name="toolrun network proxy")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, sock))
        if len(self._tasks) >= self._limits.connections:
            self._loop.remove_reader(listening)

    def _ended(self, sock: socket.socket, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._drop(sock)  # still open if the task was cancelled before it ran
        self._resume()

    def _drop(self, sock: socket.socket) -> None:
        self._sockets.discard(sock)
        sock.close()

    async def _handle(self, sock: socket.socket) -> None:
        """Serve one connection of the client to its end."""
        try:
            async with self._opened(sock, self._limits.head_size) as client:
                try:
                    await self._exchange(client)
                except _RefusalError as refusal:
                    await self._answer(*client, refusal)
        except (OSError, EOFError):
            pass  # one side has gone, and the other one was reset: it cannot take the rest for the whole
        except Exception as error:  # noqa: BLE001  `on_refused` is foreign; the error may hold what the client sent
            logger.error("The network proxy of the sandbox dropped a connection: %s.", type(error).__name__)

    async def _exchange(self, client: _Stream) -> None:
        target, head = await self._read_request(client[0])
        if not self._is_allowed(target):
            raise self._forbidden(target, target, "no entry of 'net' allows it")
        async with self._opened(await self._connect(target), _MAX_ANSWER_HEAD) as server:
            try:
                async with asyncio.TaskGroup() as both:
                    if head is None:
                        client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        both.create_task(_relay(server[0], client[1]))
                    else:
                        server[1].write(head)
                        both.create_task(_relay_answer(server[0], client[1], target))
                    both.create_task(_relay(client[0], server[1]))
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _read_request(self, reader: asyncio.StreamReader) -> tuple[Endpoint, bytes | None]:
        """As `_parse_request`. Raises EOFError if the client leaves without a word."""
        try:
            async with asyncio.timeout(self._limits.head_timeout):
                return _parse_request(await _read_head(reader, self._limits.head_size, is_strict=True))
        except TimeoutError:
            status, text = 408, f"The head of the request is not complete after {self._limits.head_timeout:g} s."
        except asyncio.LimitOverrunError:
            status, text = 431, f"The head of the request has more than {self._limits.head_size} bytes."
        except ValueError as error:
            status, text = 400, f"The proxy of the sandbox cannot read the request: {error}."
        raise _RefusalError(status, text)

    def _is_allowed(self, endpoint: Endpoint) -> bool:
        return any(pattern.matches(endpoint.host, endpoint.port) for pattern in self._patterns)

    def _forbidden(self, target: Endpoint, missing: Endpoint, why: str) -> _RefusalError:
        """Report a refusal. An entry for `missing` would have prevented it."""
        entry = str(missing)
        if entry not in self._reported and len(self._reported) < _MAX_REPORTED:
            self._reported.add(entry)
            self._on_refused(entry)
        return _RefusalError(403, f"The sandbox stopped the connection to {target}: {why}.")

    async def _connect(self, target: Endpoint) -> socket.socket:
        """A socket that is connected to the first address that answers."""
        addresses = await self._resolve(target)
        end = self._loop.time() + self._limits.connect_timeout
        status, why = 502, "it has no address"
        for left, (family, address) in zip(reversed(range(len(addresses))), addresses, strict=True):
            try:
                async with asyncio.timeout_at(min(end, self._loop.time() + _ATTEMPT) if left else end):
                    return await self._dial(family, address)
            except TimeoutError:
                status, why = 504, "it does not answer"
            except OSError as error:
                status, why = 502, os.strerror(error.errno or 0)
        raise _RefusalError(status, f"The proxy of the sandbox cannot connect to {target}: {why}.")

    async def _dial(self, family: int, address: tuple[Any, ...]) -> socket.socket:
        with no_fork:
            sock = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.add(sock)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, address)
        except BaseException:
            self._drop(sock)
            raise
        return sock

    async def _resolve(self, target: Endpoint) -> list[tuple[int, tuple[Any, ...]]]:
        """The families and addresses that the target may be reached at."""
        if target.is_literal:
            return [(socket.AF_INET6 if ":" in target.host else socket.AF_INET, (target.host, target.port))]
        try:
            async with asyncio.timeout(self._limits.connect_timeout), self._lookups:
                found = await self._loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except OSError as error:
            status, why = (504, "no answer") if isinstance(error, TimeoutError) else (502, error.strerror)
            raise _RefusalError(status, f"The proxy of the sandbox cannot resolve {target.host}: {why}.") from None
        ends = [(it[0], it[4], Endpoint.of_address(str(it[4][0]), target.port)) for it in found]
        forbidden = [end for _, _, end in ends if not (may_lead_to(target.host, end.host) or self._is_allowed(end))]
        if forbidden and len(forbidden) == len(ends):
            why = f"the name leads to {forbidden[0].host}, and no entry of 'net' allows {forbidden[0]}"
            raise self._forbidden(target, forbidden[0], why)
        return [(family, address) for family, address, end in ends if end not in forbidden]

    @asynccontextmanager
    async def _opened(self, sock: socket.socket, limit: int) -> AsyncIterator[_Stream]:
        """Streams over a connected socket, which is closed at the end of the block, or reset if that fails."""
        try:
            reader, writer = await asyncio.open_connection(sock=sock, limit=limit)
            try:
                yield reader, writer
                writer.close()
                await writer.wait_closed()  # for as long as the other side takes to read what is left
            except BaseException:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()
                raise
        finally:
            self._drop(sock)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: _RefusalError) -> None:
        """Send a refusal, and read on: a close while the client still sends would destroy the answer on its way."""
        # Most clients show only the phrase if a tunnel is refused.
        phrase = HTTPStatus(refusal.status).phrase + (" by the sandbox" if refusal.status == 403 else "")
        body = f"{refusal.text}\n".encode()
        kind = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}"
        writer.write(f"HTTP/1.1 {refusal.status} {phrase}\r\n{kind}\r\nConnection: close\r\n\r\n".encode() + body)
        writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.head_timeout):
                while await reader.read(_CHUNK):
                    pass


async def _relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass bytes on, no faster than they are read at the other end, and then the end."""
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()
    sink.write_eof()


async def _relay_answer(source: asyncio.StreamReader, sink: asyncio.StreamWriter, server: Endpoint) -> None:
    """The same for the answer to a plain request, with a head that ends the connection."""
    is_interim = True
    while is_interim:
        try:
            head, is_interim = _rewrite_answer(await _read_head(source, _MAX_ANSWER_HEAD, is_strict=False))
        except EOFError:
            raise _RefusalError(502, f"{server} closed the connection without an answer.") from None
        except (ValueError, asyncio.LimitOverrunError):
            raise _RefusalError(502, f"The answer of {server} is not HTTP/1, or its head is too long.") from None
        sink.write(head)
        await sink.drain()
    await _relay(source, sink)


async def _read_head(reader: asyncio.StreamReader, limit: int, *, is_strict: bool) -> list[bytes]:
    """The lines before the first empty one. A strict reader accepts no line that ends with a bare line feed.

    Raises EOFError if there is not a byte, ValueError, and LimitOverrunError for more than `limit` bytes.
    """
    lines: list[bytes] = []
    size = 0
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if lines or error.partial:
                raise ValueError("its head has no end") from None
            raise EOFError from None
        size += len(line)
        if size > limit:
            raise asyncio.LimitOverrunError("too many lines", size)
        if is_strict and not line.endswith(b"\r\n"):
            raise ValueError("a line ends without a carriage return")
        line = line[:-1].removesuffix(b"\r")
        if not line:
            return lines
        if _CONTROL.search(line):
            raise ValueError("its head has a control character")
        lines.append(line)


def _parse_request(lines: Sequence[bytes]) -> tuple[Endpoint, bytes | None]:
    """Where a request goes, and the head for the server there; None for a tunnel. Raises ValueError with a clause."""
    found = _REQUEST_LINE.fullmatch(lines[0]) if lines else None
    if found is None:
        raise ValueError("its first line is not that of HTTP/1")
    method, target, version = found.groups()
    fields = [_parse_field(line) for line in lines[1:]]
    if sum(name == b"host" for name, _ in fields) > 1:
        raise ValueError("it has more than one Host header")
    _check_framing(fields, is_old=version == b"HTTP/1.0")
    if method == b"CONNECT":
        return parse_endpoint(target.decode("ascii")), None
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise ValueError("a proxy needs CONNECT, or a URL that begins with http:// and has no fragment")
    endpoint = parse_endpoint(absolute[1].decode("ascii"), 80)
    named = {name.strip().lower() for field, value in fields if field == b"connection" for name in value.split(b",")}
    dropped = (_PER_CONNECTION | named | {b"host"}) - {b"content-length", b"transfer-encoding"}
    head = [
        b"%s /%s %s" % (method, absolute[2], version),
        b"Host: " + endpoint.authority(80).encode(),
        *(line for line, (name, _) in zip(lines[1:], fields, strict=True) if name not in dropped),
        b"Connection: close\r\n\r\n",
    ]
    return endpoint, b"\r\n".join(head)


def _parse_field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name):
        raise ValueError("a header is malformed")
    return name.lower(), value.strip(b" \t")


def _check_framing(fields: Sequence[tuple[bytes, bytes]], *, is_old: bool) -> None:
    """No two servers may disagree about where the body ends (RFC 9112, section 6.1)."""
    lengths = [value for name, value in fields if name == b"content-length"]
    encodings = [value.lower() for name, value in fields if name == b"transfer-encoding"]
    is_clear = len(lengths) < 2 and all(map(bytes.isdigit, lengths))
    if not is_clear or (encodings and (lengths or is_old or encodings != [b"chunked"])):
        raise ValueError("the length of its body is ambiguous")


def _rewrite_answer(lines: Sequence[bytes]) -> tuple[bytes, bool]:
    """The head of an answer for the client, and whether another one follows it. Raises ValueError if it is none."""
    found = _STATUS_LINE.fullmatch(lines[0]) if lines else None
    if found is None:
        raise ValueError
    is_interim = found[1].startswith(b"1") and found[1] != b"101"
    kept = (line for line in lines[1:] if _parse_field(line)[0] not in _PER_CONNECTION)
    added = () if is_interim else (b"Connection: close",)
    return b"\r\n".join((lines[0], *kept, *added, b"", b"")), is_interim
