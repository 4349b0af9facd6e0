"""JSON-RPC with a server over a stream of bytes: which answer belongs to which request, and what is asked of us.

Knows nothing of processes, of MCP's methods or of time. The SDK has the same in its dispatcher; importing that takes
longer than starting most servers, and a call through it ten times as long as through this.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from toolrun.execution.body import Outcome
from toolrun.json import dump_line
from toolrun.mcp.client.message import TAIL, answered_request, decode
from toolrun.processes.framing import InvalidLine, LineFramer
from toolrun.tools.context import OnProgress, Progress

logger = logging.getLogger("toolrun.mcp")

_NOT_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""Requests that the protocol forbids to cancel."""
_MAX_TOLD: Final = 20
"""Lines that are no messages and warned of."""
METHOD_NOT_FOUND: Final = -32601

Params = Mapping[str, Any]
Result = dict[str, Any]
OnNotification = Callable[[str, Params], None]
OnRequest = Callable[[str, Params], Result]
"""Answers a request of the server, or raises RpcError."""


class RpcError(Exception):
    """What the server answered instead of a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class LostError(Exception):
    """The connection ended before there was an answer."""

    def __init__(self, message: str, tail: str = "") -> None:
        super().__init__(message)
        self.tail = tail
        """The last lines that the server wrote on stderr."""


class NotSentError(LostError):
    """The connection had ended before the request could be sent: the server has done nothing about it."""


class BadAnswerError(Exception):
    """There was an answer, and it is none."""


Read = Callable[[Result | None, Exception | None], object]
"""Makes the value of a call of what the server answered, or raises the reason why there is none."""


class Pending:
    """A request that waits for its answer. The executor waits for it as for any body that runs."""

    __slots__ = ("_on_progress", "_read", "_rpc", "id", "on_end", "outcome")

    def __init__(self, rpc: Rpc, request_id: int | str, read: Read | None, on_progress: OnProgress | None) -> None:
        self.id = request_id
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.on_end: Callable[[], object] | None = None
        self._rpc = rpc
        self._read = read
        self._on_progress = on_progress

    def settle(self, result: Result | None, error: Exception | None) -> None:
        value: object = result
        if self._read is not None:
            try:
                value, error = self._read(result, error), None
            except Exception as failure:  # noqa: BLE001  whatever it is, it is this call's, and not the connection's
                value, error = None, failure
        if not self.outcome.done():
            self.outcome.set_result((value, error))
        self._leave()

    def progressed(self, params: Params) -> None:
        if self._on_progress is not None:
            report(self._on_progress, params)

    def give_up(self) -> None:
        """Nobody waits for it any more, so the server is told to stop it."""
        self._rpc.cancel(self)
        self._leave()

    def _leave(self) -> None:
        on_end, self.on_end = self.on_end, None  # once: it may be given up in the moment in which it ends
        if on_end is not None:
            on_end()


class Rpc:
    """Our end of a connection."""

    def __init__(
        self,
        name: str,
        send: Callable[[bytes], None],
        on_request: OnRequest,
        on_notification: OnNotification,
        limit: int,
    ) -> None:
        """`limit` is how many bytes a message of the server may have."""
        self.heard = 0
        """How many messages the server has sent."""
        self.on_cancelled: Callable[[], None] = _ignore
        """Called when a request was cancelled, after the server was told."""
        self._name = name
        self._send = send
        self._on_request = on_request
        self._on_notification = on_notification
        self._lines = LineFramer(limit, tail=TAIL)
        self._pending: dict[int | str, Pending] = {}
        self._ids = itertools.count(1)
        self._loss: LostError | None = None
        self._told = 0

    def begin(
        self,
        method: str,
        params: Params | None,
        *,
        read: Read | None = None,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
    ) -> Pending:
        """Send a request. Raises NotSentError if the connection has ended, TypeError for what is not JSON."""
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
    ) -> Result:
        """Raises RpcError for the server's own, LostError if the connection ends before, BadAnswerError."""
        pending = self.begin(method, params, on_progress=on_progress, request_id=request_id)
        try:
            value, error = await pending.outcome
        except asyncio.CancelledError:
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
        """Send a request whose answer does not matter, as long as there is one."""
        self._send(dump_line({"jsonrpc": "2.0", "id": next(self._ids), "method": method}))

    def cancel(self, pending: Pending) -> None:
        if self._pending.pop(pending.id, None) is not None and self._loss is None:
            self.notify("notifications/cancelled", {"requestId": pending.id, "reason": "the caller gave up"})
            self.on_cancelled()

    def received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            for message in decode(line) if isinstance(line, bytes) else (line,):
                if isinstance(message, InvalidLine):
                    self._invalid(message)
                    continue
                self.heard += 1
                if "method" not in message:
                    self._answered(message)
                elif "id" in message:
                    self._asked(message)
                else:
                    self._notified(message)

    def lose(self, loss: LostError) -> None:
        """The connection has ended: nothing that waits will get an answer."""
        self._loss = loss
        while self._pending:
            self._pending.popitem()[1].settle(None, loss)

    def _answered(self, message: Result) -> None:
        pending = self._pop(message.get("id"))
        if pending is None:  # of a request that was given up, or never made
            logger.debug("MCP server '%s': an answer to no request: id %r", self._name, message.get("id"))
            return
        result, error = message.get("result"), message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            code = code if isinstance(code, int) else 0
            pending.settle(None, RpcError(code, str(error.get("message", "")), error.get("data")))
        elif isinstance(result, dict):
            pending.settle(result, None)
        else:
            pending.settle(None, BadAnswerError("it answered with neither a result nor an error"))

    def _pop(self, request_id: object) -> Pending | None:
        if isinstance(request_id, str) and request_id not in self._pending and request_id.isdecimal():
            request_id = int(request_id)  # some servers make text of it
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return None
        return self._pending.pop(request_id, None)

    def _asked(self, message: Result) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        params = message.get("params")
        try:
            answer["result"] = self._on_request(str(message["method"]), params if isinstance(params, dict) else {})
        except RpcError as error:
            answer["error"] = {"code": error.code, "message": error.message}
        self._send(dump_line(answer))

    def _notified(self, message: Result) -> None:
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "notifications/progress":
            token = params.get("progressToken")
            pending = self._pending.get(token) if isinstance(token, int | str) else None
            if pending is not None:
                pending.progressed(params)
            return
        self._on_notification(str(method), params)

    def _invalid(self, line: InvalidLine) -> None:
        self._told += 1
        level = logging.WARNING if self._told <= _MAX_TOLD else logging.DEBUG
        logger.log(level, "MCP server '%s' wrote %s on stdout: %r", self._name, line.reason, line.excerpt)
        if self._told == _MAX_TOLD:
            logger.warning("MCP server '%s': what else it writes there is logged at level debug", self._name)
        pending = self._pop(answered_request(line))
        if pending is not None:
            pending.settle(None, BadAnswerError(f"its answer was {line.reason}"))


def report(on_progress: OnProgress, params: Params) -> None:
    """Tell a caller of a progress notification, if it says how far the tool has got."""
    done, total = params.get("progress"), params.get("total")
    if isinstance(done, int | float):
        progress = Progress(done, total if isinstance(total, int | float) else None, str(params.get("message") or ""))
        with contextlib.suppress(Exception):  # the listener's own failure is not the call's
            on_progress(progress)


def _ignore() -> None:
    pass
