"""JSON-RPC with a server over a stream of bytes: matches answers to requests, and answers what the server asks.

Knows nothing of processes, of MCP's methods or of time. The SDK's dispatcher does the same; importing it takes longer
than starting most servers, and a call through it takes ten times as long as through this.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from toolrun.execution.body import Outcome
from toolrun.json import dump_line
from toolrun.logger import get_logger
from toolrun.mcp.client.message import TAIL, answered_request, decode, decode_large
from toolrun.processes.framing import LARGE, InvalidLine, LargeLine, LineFramer
from toolrun.result import Large
from toolrun.text import show
from toolrun.tools.context import OnLateEnd, OnProgress, Progress

logger = get_logger("toolrun.mcp")

_NOT_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""Requests that the protocol forbids to cancel."""
_MAX_WARNINGS: Final = 20
"""Invalid lines that are logged as warnings; the rest is logged at level debug."""
MAX_GIVEN_UP: Final = 1000
"""Requests that were given up and whose answers somebody wants to know all the same."""
METHOD_NOT_FOUND: Final = -32601

Params = Mapping[str, Any]
Result = dict[str, Any]
OnNotification = Callable[[str, Params], None]
OnRequest = Callable[[str, Params], Result]
"""Answers a request of the server, or raises RpcError."""


class RpcError(Exception):
    """The error that the server answered with."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class TransportError(RpcError):
    """An answer with which the transport says that the request has failed, with or without an error of the server."""

    summary: str
    """The failure in words, after "answered"."""
    facts: str
    """What the transport itself says: its status."""
    rpc: Mapping[str, Any] | None
    """The error of the server, if the answer has one."""
    is_refusal: bool
    """Whether the request was refused before anybody acted on it."""
    is_throttled: bool
    """Whether it was refused because there were too many."""
    is_unreachable: bool
    """Whether something between us and the server could not reach it."""
    may_have_acted: bool
    """Whether the server may have acted although it answers with an error."""


class LostError(Exception):
    """The connection ended before there was an answer."""

    def __init__(self, message: str, tail: str = "") -> None:
        super().__init__(message)
        self.tail = tail
        """The last lines that the server wrote on stderr."""


class NotSentError(LostError):
    """The connection had ended before the request could be sent, so the server has not acted on it."""


class SessionForgottenError(NotSentError):
    """The server does not know the session any more, so it has not acted on the request: it may be sent in another."""


class BadAnswerError(Exception):
    """The server answered, but not with a JSON-RPC answer."""


Read = Callable[["Result | None", "Exception | None"], Outcome]
"""What the server's answer means to the caller. Never raises. A large answer: in a thread."""
OnLateAnswer = Callable[["Result | None", "Exception | None"], object]
"""Is told what the server answered to a request that was given up."""
_Messages: TypeAlias = "Sequence[Result | InvalidLine]"


class Pending:
    """A request that waits for its answer. To the executor it is the body of a call."""

    __slots__ = ("_on_progress", "_read", "_rpc", "id", "on_end", "on_late_end", "outcome")

    def __init__(self, rpc: JsonRpc, request_id: int | str, read: Read | None, on_progress: OnProgress | None) -> None:
        self.id = request_id
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.on_end: Callable[[], object] | None = None
        self.on_late_end: OnLateEnd | None = None
        self._rpc = rpc
        self._read = read or _as_it_is
        self._on_progress = on_progress

    def resolve(self, result: Result | None, error: Exception | None, outcome: Outcome | None = None) -> None:
        """There is an answer, or there will be none. `outcome` is what the answer means, if it was read already."""
        outcome = outcome or self._read(result, error)
        if not self.outcome.done():
            self.outcome.set_result(outcome)
        elif self.on_late_end is not None:
            self.on_late_end(*outcome)
        on_end, self.on_end = self.on_end, None  # once: the caller may give up in the moment in which it ends
        if on_end is not None:
            on_end()

    def read_large(self, line: LargeLine) -> tuple[_Messages, Outcome]:
        """The same for an answer that was not read at all yet. In a thread."""
        messages = decode_large(line)
        message = messages[0]
        if isinstance(message, InvalidLine):
            return messages, self._read(None, BadAnswerError(f"its answer was {message.reason}"))
        if str(message.get("id")) != str(self.id):
            return messages, self._read(None, BadAnswerError("its answer had two ids"))
        value, error = self._read(*read_answer(message))
        return messages, (Large(value) if self._read is not _as_it_is and error is None else value, error)  # type: ignore[arg-type]  # it is what was read from JSON

    def progressed(self, params: Params) -> None:
        if self._on_progress is not None:
            report(self._on_progress, params)

    def give_up(self) -> None:
        """The caller does not wait any more: tell the server to stop."""
        self._rpc.cancel(self)
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


class JsonRpc:
    """Our end of a connection."""

    def __init__(
        self,
        name: str,
        send: Callable[[bytes], object],
        on_request: OnRequest,
        on_notification: OnNotification,
        limit: int,
    ) -> None:
        """`limit` is the size of the largest message that the server may send, in bytes."""
        self.heard = 0
        """How many messages the server has sent."""
        self.on_cancelled: Callable[[], None] = _ignore
        """Called when a request was cancelled, after the cancellation was sent."""
        self._name = name
        self._send = send
        self._on_request = on_request
        self._on_notification = on_notification
        self._lines = LineFramer(limit, tail=TAIL, large=LARGE)
        self._pending: dict[int | str, Pending] = {}
        self._given_up: dict[int | str, Pending] = {}
        """Requests that nobody waits for, and whose answers somebody wants to know all the same."""
        self._ids = itertools.count(1)
        self._loss: LostError | None = None
        self._invalid_lines = 0

    def submit(
        self,
        method: str,
        params: Params | None,
        read: Read | None = None,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
    ) -> Pending:
        """Send a request. Raises NotSentError if the connection has ended, TypeError for params that are not JSON."""
        if self._loss is not None:
            raise NotSentError(str(self._loss), self._loss.tail)
        pending = Pending(self, request_id or next(self._ids), read, on_progress)
        if on_progress is not None:
            meta = {**(params or {}).get("_meta", {}), "progressToken": pending.id}
            params = {**(params or {}), "_meta": meta}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": pending.id, "method": method}
        if params is not None:
            message["params"] = params
        data = dump_line(message)
        self._pending[pending.id] = pending
        self._send(data)
        return pending

    async def request(
        self,
        method: str,
        params: Params | None = None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
        on_late_answer: OnLateAnswer | None = None,
    ) -> Result:
        """Raises RpcError for an error that the server sends, LostError if the connection ends, BadAnswerError.

        `on_late_answer` gets an answer that comes after the caller has given up.
        """
        pending = self.submit(method, params, None, on_progress, request_id)
        pending.on_late_end = on_late_answer  # type: ignore[assignment]  # nothing reads the answers of such a request
        try:
            value, error = await pending.outcome
        except asyncio.CancelledError:
            if on_late_answer is not None and pending.outcome.done() and not pending.outcome.cancelled():
                on_late_answer(*pending.outcome.result())  # type: ignore[arg-type]  # it was there in the same moment
            if method in _NOT_CANCELLED:
                self._pending.pop(pending.id, None)
            else:
                pending.give_up()
            raise
        if error is not None:
            raise error
        assert isinstance(value, dict)
        return value

    def notify(self, method: str, params: Params | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        self._send(dump_line(message if params is None else {**message, "params": params}))

    def ask(self, method: str) -> None:
        """Send a request whose answer is only counted, as any message is."""
        self._send(dump_line({"jsonrpc": "2.0", "id": next(self._ids), "method": method}))

    def cancel(self, pending: Pending) -> None:
        if self._pending.pop(pending.id, None) is not None and self._loss is None:
            if pending.on_late_end is not None:
                self._given_up[pending.id] = pending
                if len(self._given_up) > MAX_GIVEN_UP:
                    del self._given_up[next(iter(self._given_up))]
            self.notify("notifications/cancelled", {"requestId": pending.id, "reason": "the caller gave up"})
            self.on_cancelled()

    def received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, LargeLine):
                self._read_large(line)
            else:
                self._receive(decode(line) if isinstance(line, bytes) else (line,))

    def _receive(self, messages: _Messages) -> None:
        for message in messages:
            if isinstance(message, InvalidLine):
                self._invalid(message)
                continue
            self.heard += 1
            if "method" in message:
                self._asked(message)
                continue
            number = message.get("id")
            pending = self._pending.pop(number, None) if type(number) is int else self._pop(number)
            if pending is None and self._given_up and isinstance(number, int | str):
                pending = self._given_up.pop(number, None)
            if pending is None:  # of a request that was given up, or never made
                logger.debug("MCP server '%s': no request has the id of this answer: %r", self._name, number)
            elif type(result := message.get("result")) is dict and "error" not in message:
                pending.resolve(result, None)
            else:
                pending.resolve(*read_answer(message))

    def _read_large(self, line: LargeLine) -> None:
        """Find out in a thread what a line says. If it is an answer, its request has ended here and now."""
        loop = asyncio.get_running_loop()
        number = answered_request(line)
        if number is None:
            loop.run_in_executor(None, decode_large, line).add_done_callback(self._large_was_read)
            return
        self.heard += 1
        pending = self._pending.pop(number, None) or self._given_up.pop(number, None)
        if pending is None:
            logger.debug("MCP server '%s': no request has the id of this answer: %r", self._name, number)
        else:
            reading = loop.run_in_executor(None, pending.read_large, line)
            reading.add_done_callback(partial(self._large_answer_was_read, pending))

    def _large_was_read(self, reading: asyncio.Future[_Messages]) -> None:
        if not reading.cancelled():
            self._receive(reading.result())

    def _large_answer_was_read(self, pending: Pending, reading: asyncio.Future[tuple[_Messages, Outcome]]) -> None:
        if reading.cancelled():
            return
        messages, outcome = reading.result()
        if isinstance(messages[0], InvalidLine):
            self._invalid(messages[0])
        pending.resolve(None, None, outcome)

    def lose(self, loss: LostError) -> None:
        """The connection has ended: requests that wait for an answer fail."""
        self._loss = loss
        while self._pending:
            self._pending.popitem()[1].resolve(None, loss)

    def server_ended(self, loss: LostError) -> None:
        """The same, and the server cannot act any more on what was given up, either."""
        self.lose(loss)
        while self._given_up:
            self._given_up.popitem()[1].resolve(None, loss)

    def _pop(self, request_id: object) -> Pending | None:
        if isinstance(request_id, str) and request_id not in self._pending and request_id.isdecimal():
            request_id = int(request_id)  # some servers make text of it
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return None
        return self._pending.pop(request_id, None)

    def _asked(self, message: Result) -> None:
        """A request or a notification of the server."""
        method, params = str(message["method"]), message.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" not in message:
            self._notified(method, params)
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = self._on_request(method, params)
        except RpcError as error:
            answer["error"] = {"code": error.code, "message": error.message}
        self._send(dump_line(answer))

    def _notified(self, method: str, params: Params) -> None:
        if method != "notifications/progress":
            self._on_notification(method, params)
            return
        token = params.get("progressToken")
        pending = self._pending.get(token) if isinstance(token, int | str) else None
        if pending is not None:
            pending.progressed(params)

    def _invalid(self, line: InvalidLine) -> None:
        self._invalid_lines += 1
        level = logging.WARNING if self._invalid_lines <= _MAX_WARNINGS else logging.DEBUG
        logger.log(level, "MCP server '%s' wrote %s on stdout: %r", self._name, line.reason, line.excerpt)
        if self._invalid_lines == _MAX_WARNINGS:
            logger.warning("MCP server '%s': further lines of that kind are logged at level debug", self._name)
        pending = self._pop(answered_request(line))
        if pending is not None:
            pending.resolve(None, BadAnswerError(f"its answer was {line.reason}"))


def _as_it_is(result: Result | None, error: Exception | None) -> Outcome:
    return result, error


def read_answer(message: Result) -> tuple[Result | None, Exception | None]:
    """The result in an answer, or why there is none."""
    result = message.get("result")
    is_result = isinstance(result, dict) and not isinstance(message.get("error"), dict)
    return (result, None) if is_result else (None, _failure(message))


def _failure(message: Result) -> Exception:
    """Of an answer without a usable result: what the server says, or that it says nothing."""
    error = message.get("error")
    if isinstance(error, str):
        return BadAnswerError(f"it answered with an error that is a mere text: {show(error, 200)}")
    if not isinstance(error, dict):
        return BadAnswerError("it answered with neither a result nor an error")
    code, said = error.get("code"), error.get("message")
    return RpcError(code if isinstance(code, int) else 0, said if isinstance(said, str) else "", error.get("data"))


def report(on_progress: OnProgress, params: Params) -> None:
    """Pass a progress notification on to the caller, if it says how far the tool has got."""
    done, total = params.get("progress"), params.get("total")
    if isinstance(done, int | float):
        progress = Progress(done, total if isinstance(total, int | float) else None, str(params.get("message") or ""))
        with contextlib.suppress(Exception):  # the listener's own failure is not the call's
            on_progress(progress)


def _ignore() -> None:
    pass
