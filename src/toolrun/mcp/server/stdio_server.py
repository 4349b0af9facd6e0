"""MCP over standard input and output: one JSON-RPC message per line, and nothing else, whatever tools print.

The pipes are moved to private descriptors before any tool is loaded. From then on, until the process ends, the output
of tools, libraries and children goes to stderr, and their input is empty.

Nothing here blocks: a client that does not read delays only its own answers. The pipes are not made non-blocking,
because they would share the flag with everyone who has them open, stderr for instance. Instead, no more is written at
once than a pipe that is ready accepts (PIPE_BUF).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
from collections import deque
from typing import Any, Final, Self

import anyio
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from toolrun.json import dump_line
from toolrun.logger import get_logger
from toolrun.mcp.server.client_message import CALL, RefusedError, check_keys, read_large
from toolrun.processes.framing import LARGE, InvalidLine, LargeLine, Line, LineFramer

logger = get_logger("toolrun.serve")

MAX_MESSAGE: Final = 16 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_ENOUGH: Final = 1000
"""Messages that may wait to be handled; then reading pauses."""
_BACKLOG: Final = 1024 * 1024
"""Bytes that may wait for the client to read them; then sending pauses."""
_GRACE: Final = 1.0
"""Seconds that calls have to end, and the client to read the answers, once it has closed our input."""


def redirect_stdio() -> tuple[int, int]:
    """Move the protocol to descriptors that children do not inherit, and leave nothing of it where it was."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    if sys.stdout is not None:
        sys.stdout.flush()  # what was printed before goes to stderr as well
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)  # so that prints and the log come in order
    return incoming, outgoing


async def serve_stdio(server: Server[Any], incoming: int, outgoing: int) -> None:
    """Serve the client at the other end of the pipes, until it closes our input or exits."""
    writer = Outgoing(outgoing)
    reader = Incoming(incoming, writer)
    try:
        await server.run(reader, writer, server.create_initialization_options())
        await writer.drain(_GRACE)
    finally:
        reader.stop()
        writer.stop()


class Outgoing:
    """The stream that the SDK writes messages to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._is_waiting = False
        self._space = asyncio.Event()
        self._space.set()
        self.is_broken = asyncio.Event()
        """Set when the client has closed its end."""
        self.open_requests: set[RequestId] = set()
        """Requests that are not answered yet."""
        self.open_streams: set[RequestId] = set()
        """Requests that are answered only when the client or the server ends."""
        self.all_answered = asyncio.Event()

    async def send(self, item: SessionMessage, /) -> None:
        if self.is_broken.is_set():
            raise anyio.BrokenResourceError
        message = item.message
        self.write(_encoded(message))
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.close_request(message.id)
        await self._space.wait()

    def close_request(self, request: RequestId) -> None:
        self.open_requests.discard(request)
        self.open_streams.discard(request)
        if not self.open_requests:
            self.all_answered.set()

    def write(self, line: bytes) -> None:
        self._buffer += line
        if len(self._buffer) > _BACKLOG:
            self._space.clear()
        if not self._is_waiting:
            self._flush()

    async def drain(self, seconds: float) -> None:
        """Wait until everything is written, at most that long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._buffer:
                    self._space.clear()
                    await self._space.wait()

    def stop(self) -> None:
        if self._is_waiting:
            self._loop.remove_writer(self._descriptor)
            self._is_waiting = False

    def _flush(self) -> None:
        try:
            while self._buffer:
                if not self._poll.poll(0):
                    if not self._is_waiting:
                        self._loop.add_writer(self._descriptor, self._flush)
                        self._is_waiting = True
                    return
                written = os.write(self._descriptor, memoryview(self._buffer)[: select.PIPE_BUF])
                del self._buffer[:written]
                if len(self._buffer) <= _BACKLOG // 2:
                    self._space.set()
        except OSError:
            self._buffer.clear()
            self.is_broken.set()
        self.stop()
        self._space.set()

    async def aclose(self) -> None:
        """Keeps the descriptor open: the last bytes are written after this."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Incoming:
    """The stream that the SDK reads messages from."""

    def __init__(self, descriptor: int, outgoing: Outgoing) -> None:
        self._descriptor = descriptor
        self._outgoing = outgoing
        self._loop = asyncio.get_running_loop()
        self._lines = LineFramer(MAX_MESSAGE, large=LARGE)
        self._waiting: deque[Line] = deque()
        """Lines that are not understood yet, because a large one before them is being read."""
        self._large: asyncio.Future[dict[str, Any]] | None = None
        """The large line that is being read."""
        self._has_ended = False
        """Whether all lines have come."""
        self._messages: deque[SessionMessage] = deque()
        self._news = asyncio.Event()
        self._is_at_end = False
        self._is_reading = False

    async def receive(self) -> SessionMessage | Exception:
        while not self._messages:
            if self._is_at_end:
                await self._let_calls_end()
                raise anyio.EndOfStream
            self._news.clear()
            self._resume()
            await self._wait()
        return self._messages.popleft()

    async def _wait(self) -> None:
        """Wait for a message, or until the client has closed its end."""
        waits = [asyncio.ensure_future(it.wait()) for it in (self._news, self._outgoing.is_broken)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._outgoing.is_broken.is_set():
            self._is_at_end = True

    async def _let_calls_end(self) -> None:
        """At the end of its input, the SDK cancels the calls that still run: give them a moment."""
        if self._outgoing.open_requests and not self._outgoing.is_broken.is_set():
            self._outgoing.all_answered.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._outgoing.all_answered.wait()

    def _resume(self) -> None:
        if self._is_reading or self._large is not None:
            return
        try:
            self._loop.add_reader(self._descriptor, self._read)
            self._is_reading = True
        except PermissionError:  # a regular file, which is always ready
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except OSError as error:
            logger.warning("stdin cannot be read: %s", error)
            data = b""
        self._waiting += self._lines.feed(data or b"\n")  # the last line may have no end
        self._has_ended = not data
        self._receive_lines()

    def _receive_lines(self) -> None:
        """In order: what follows a large message may cancel it."""
        while self._waiting and self._large is None:
            line = self._waiting.popleft()
            if isinstance(line, LargeLine):
                self._large = self._loop.run_in_executor(None, _read_large, line)
                self._large.add_done_callback(self._large_was_read)
            else:
                self._receive_line(line)
        if self._large is None:
            self._is_at_end = self._has_ended
        if self._large is not None or self._has_ended or len(self._messages) > _ENOUGH:
            self.stop()
        self._news.set()

    def _large_was_read(self, reading: asyncio.Future[dict[str, Any]]) -> None:
        self._large = None
        if reading.cancelled():
            return
        error = reading.exception()
        if isinstance(error, RefusedError):
            self._refuse(error.answer, "a large line")
        else:
            self._accept(JSONRPCRequest.model_construct(**reading.result()))
        self._receive_lines()

    def _receive_line(self, line: bytes | InvalidLine) -> None:
        if isinstance(line, InvalidLine):
            refused = RefusedError(PARSE_ERROR, f"Parse error: {line.reason}")
            self._refuse(refused.answer, line.excerpt)
            return
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            is_json = error.errors(include_url=False)[0]["type"] != "json_invalid"
            code, what = (INVALID_REQUEST, "Invalid request") if is_json else (PARSE_ERROR, "Parse error")
            refused = RefusedError(code, f"{what}: one JSON-RPC message per line is expected")
            self._refuse(refused.answer, line[:200].decode("utf-8", "replace"))
            return
        try:
            if isinstance(message, JSONRPCRequest) and message.method == CALL:
                check_keys(line, vars(message))
        except RefusedError as refused:
            self._refuse(refused.answer, line[:200].decode("utf-8", "replace"))
        else:
            self._accept(message)

    def _accept(self, message: JSONRPCMessage) -> None:
        outgoing = self._outgoing
        if isinstance(message, JSONRPCRequest):
            if message.id in outgoing.open_requests or message.id in outgoing.open_streams:
                # Without its id: the client would take that for the answer to the first one.
                why = (
                    f"Invalid request: the request with the id {message.id!r:.100} is not answered yet; use another id"
                )
                self._refuse(RefusedError(INVALID_REQUEST, why).answer, message.method)
                return
            is_stream = message.method == "subscriptions/listen"
            (outgoing.open_streams if is_stream else outgoing.open_requests).add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            outgoing.close_request(_cancelled(message, outgoing))
        self._messages.append(SessionMessage(message))

    def _refuse(self, answer: dict[str, Any], excerpt: str) -> None:
        logger.warning("%s; got %r", answer["error"]["message"], excerpt)
        self._outgoing.write(dump_line(answer))

    def stop(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._descriptor)
            self._is_reading = False

    async def aclose(self) -> None:
        self.stop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _cancelled(message: JSONRPCNotification, outgoing: Outgoing) -> RequestId:
    """The request that a client gives up: to the SDK "7" and 7 are the same."""
    id = (message.params or {}).get("requestId", "")
    return next((it for it in (*outgoing.open_requests, *outgoing.open_streams) if str(it) == str(id)), "")


def _read_large(line: LargeLine) -> dict[str, Any]:
    """In a thread. Raises RefusedError."""
    return read_large(line.join())


def _encoded(message: Any) -> bytes:
    if isinstance(message, JSONRPCResponse):
        return dump_line({"jsonrpc": "2.0", "id": message.id, "result": message.result})
    text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode() + b"\n"
