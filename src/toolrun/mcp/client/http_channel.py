"""A server that runs elsewhere, reached over HTTP: streamable HTTP with the transport of the SDK, or the older SSE.

`http_client.py`, below the transports, converts each failure to an answer for the request that failed; here it becomes
an exception again.

HTTP repeats parts of a message in headers: the version of the protocol, the method, the name of the tool, arguments
that the tool's schema marks with `x-mcp-header`, and the key of a call, for whatever stands between us and the server.
All of it is in the messages that a channel carries.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import anyio.abc
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    coerce_request_id,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import encode_header_value, find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, ErrorData, RequestId

from toolrun.logger import get_logger
from toolrun.mcp.call_key import HEADER, META_KEY
from toolrun.mcp.client.channel import Handlers, LargeResult, Server
from toolrun.mcp.client.http_client import FAILURE, HttpClient, InSessionError, unpack
from toolrun.mcp.client.json_rpc import (
    MAX_GIVEN_UP,
    METHOD_NOT_FOUND,
    BadAnswerError,
    LostError,
    NotSentError,
    OnLateAnswer,
    Params,
    Read,
    Result,
    RpcError,
    SessionForgottenError,
    report,
)
from toolrun.mcp.client.large_message import LargeAnswers, with_text
from toolrun.mcp.client.sse_transport import open_sse
from toolrun.tools.context import OnProgress

logger = get_logger("toolrun.mcp")

_UNKNOWN_SESSION: Final = 404
_GONE: Final = (400, _UNKNOWN_SESSION)
"""The status with which servers say that they do not know a session: 404 by the book, 400 if written in JavaScript.
Either may be the answer to one bad request just as well."""
_PING: Final = 5.0
"""Seconds that a server has to say whether it knows the session."""
_URL_ON_SOCKET: Final = "http://localhost/mcp"
_Answer: TypeAlias = "dict[str, Any] | ErrorData"
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


class HttpChannel:
    """A session over HTTP."""

    def __init__(self, server: Server, handlers: Handlers) -> None:
        self.lost = asyncio.Event()
        self.loss: LostError | None = None
        self.tail = ""
        self._name = server.name
        self._handlers = handlers
        self._headers = _Headers()
        self._ids = itertools.count(1)
        self.answers = LargeAnswers()
        self.dispatcher: _Dispatcher | None = None
        self._is_forgotten = False
        """Whether the server does not know the session any more."""
        self._unanswered = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    def submit(self, method: str, params: Params, read: Read, on_progress: OnProgress | None) -> None:
        """The SDK's transports need a coroutine for everything."""

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
        on_late_answer: OnLateAnswer | None = None,
    ) -> Result:
        options: CallOptions = {"headers": self._headers.of(method, params)}
        if method == "initialize":  # the protocol forbids it
            options["cancel_on_abandon"] = False
        if request_id is not None:
            options["request_id"] = request_id
        if params is not None:
            params = with_text(params)
        if on_progress is not None:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                report(on_progress, {"progress": progress, "total": total, "message": message})

            options["on_progress"] = progressed
        result = await self._request(method, params, options, on_late_answer)
        for reason in self._headers.learn(method, params, result):
            logger.warning("MCP server '%s' lists a tool that cannot be used: %s", self._name, reason)
        return result

    async def notify(self, method: str, params: Params | None = None) -> None:
        assert self.dispatcher is not None
        await self.dispatcher.notify(method, params, {"headers": self._headers.of(method, params)})

    def lose(self, loss: LostError) -> None:
        if not self.lost.is_set():
            self.loss = loss
            self.lost.set()

    async def drain(self) -> None:
        """After a loss: wait for the answers to what the server has accepted. Each has a stream of its own."""
        await self._all_answered.wait()

    async def _request(
        self, method: str, params: Params | None, options: CallOptions, on_late_answer: OnLateAnswer | None
    ) -> Result:
        if self.loss is not None:
            raise NotSentError(str(self.loss))
        assert self.dispatcher is not None
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        if on_late_answer is not None:
            self.dispatcher.expect(options.setdefault("request_id", next(self._ids)), answer)
        try:
            return await self._send(method, params, options)
        except asyncio.CancelledError:
            if on_late_answer is not None:  # the answer may be there already
                answer.add_done_callback(lambda done: self._answered_late(on_late_answer, done.result()))
            raise
        except MCPError as error:
            failure = self._failure(error)
        if isinstance(failure, InSessionError) and failure.status in _GONE and await self._is_session_forgotten():
            words = "it no longer knows the session; it was probably restarted"
            failure = SessionForgottenError(words) if _is_about_session(failure) else NotSentError(words)
        if isinstance(failure, NotSentError):
            # Here, and not where the error occurred: otherwise the session's end could overtake the answer to the call
            # that found out.
            self.lose(LostError(str(failure)))
        raise failure

    async def _send(self, method: str, params: Params | None, options: CallOptions) -> Result:
        assert self.dispatcher is not None
        number = options.setdefault("request_id", next(self._ids))
        self.answers.expect(number)
        self._unanswered += 1
        self._all_answered.clear()
        try:
            result = await self.dispatcher.send_raw_request(method, params, options)
            large, error = self.answers.get(number) or (None, None)
        finally:
            self.answers.forget(number)
            self._unanswered -= 1
            if not self._unanswered:
                self._all_answered.set()
        if error is not None:
            raise error
        return result if large is None else LargeResult(large)

    def _answered_late(self, on_late_answer: OnLateAnswer, answer: _Answer) -> None:
        if isinstance(answer, ErrorData):
            on_late_answer(None, self._failure(MCPError(answer.code, answer.message, answer.data)))
        else:
            on_late_answer(answer, None)

    def _failure(self, error: MCPError) -> Exception:
        """The exception that an error of the SDK stands for."""
        code, message = error.code, error.message
        failure = unpack(error.error.data) if code == FAILURE else None
        if failure is not None:
            return failure
        # A server may use the same codes, but not the words that the SDK uses when there is no answer.
        if code == CONNECTION_CLOSED and message.startswith("SSE stream failed"):
            return BadAnswerError(message)
        if code == CONNECTION_CLOSED and message.startswith(("Connection closed", "SSE stream")):
            return LostError(str(self.loss or message))
        if code == PARSE_ERROR and message.startswith("Failed to parse"):
            logger.warning("MCP server '%s' answered with something that is not a message: %s", self._name, message)
            return BadAnswerError(message)
        return RpcError(code, message, error.error.data)

    async def _is_session_forgotten(self) -> bool:
        """Ask for what every session answers: a ping, and if that fails without a word of sessions, the tools.

        Some servers have no ping, and answer it like any bad request.
        """
        ping = await self._refusal("ping")
        if ping is not None and (_names_session(ping) or await self._refusal("tools/list")):
            self._is_forgotten = True
        return self._is_forgotten  # another call may have found out meanwhile

    async def _refusal(self, method: str) -> InSessionError | None:
        """The failure of a request that may mean that the server does not know the session, if it fails so."""
        try:
            async with asyncio.timeout(_PING):
                await self._send(method, None, {"headers": self._headers.of(method, None)})
        except MCPError as error:
            failure = self._failure(error)
            if isinstance(failure, InSessionError) and failure.status in _GONE and failure.code != METHOD_NOT_FOUND:
                return failure
        except (TimeoutError, BadAnswerError):
            pass
        return None

    async def asked(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Result:
        try:
            return self._handlers.on_request(method, params or {})
        except RpcError as error:
            raise MCPError(error.code, error.message) from error

    async def notified(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        if method != "notifications/progress":
            self._handlers.on_notification(method, params or {})


def _is_about_session(error: InSessionError) -> bool:
    """Whether it says that the session is unknown, and not that something is wrong with the request."""
    return error.status == _UNKNOWN_SESSION or _names_session(error)


def _names_session(error: InSessionError) -> bool:
    return "session" in f"{error.words} {error.message}".lower()


class _Headers:
    """The headers of each message, from the message and from those before it."""

    def __init__(self) -> None:
        self._version = ""
        """The version that a handshake agreed on."""
        self._marked: dict[str, dict[tuple[str, ...], str]] = {}
        """By tool: the arguments that are repeated in a header, and in which."""

    def of(self, method: str, params: Params | None) -> dict[str, str]:
        version, key = _meta(params, _VERSION_KEY), _meta(params, META_KEY)
        headers = {HEADER: key} if key else {}
        if not version:  # the handshake era
            return {**headers, "mcp-protocol-version": self._version} if self._version else headers
        headers |= {"mcp-protocol-version": version, "mcp-method": method}
        if params is not None and method == "resources/read":
            headers["mcp-name"] = encode_header_value(params["uri"])
        if params is not None and method == "tools/call":
            tool = params["name"]
            headers["mcp-name"] = encode_header_value(tool)
            if marked := self._marked.get(tool):
                headers |= mcp_param_headers(marked, params["arguments"])
        return headers

    def learn(self, method: str, params: Params | None, result: Result) -> list[str]:
        """Remember what later messages need. Tools with invalid marks are removed; returns what is wrong with them."""
        if method == "initialize":
            self._version = str(result.get("protocolVersion", ""))
        listed = result.get("tools")
        if method != "tools/list" or not _meta(params, _VERSION_KEY) or not isinstance(listed, list):
            return []
        invalid = {index: reason for index, entry in enumerate(listed) if (reason := self._register_tool(entry))}
        result["tools"] = [entry for index, entry in enumerate(listed) if index not in invalid]
        return list(invalid.values())

    def _register_tool(self, entry: object) -> str | None:
        """Why its marks are invalid, if they are."""
        name, schema = (entry.get("name"), entry.get("inputSchema")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(schema, dict):
            return None  # the session has its own word for it
        reason = find_invalid_x_mcp_header(schema)
        if reason is None:
            self._marked[name] = x_mcp_header_map(schema)
        return reason


def _meta(params: Params | None, name: str) -> str:
    """What the message says about itself under that name: in the newer era the version of the protocol."""
    meta = params.get("_meta") if params is not None else None
    return str(meta.get(name, "")) if isinstance(meta, Mapping) else ""


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Tells its channel when it has ended, and of answers that come late.

    In the newer era none does: a request is given up by closing the stream that its answer would come on.
    """

    channel: HttpChannel

    def __init__(self, *streams: Any) -> None:
        super().__init__(*streams)
        self._expected: dict[RequestId, asyncio.Future[_Answer]] = {}

    def expect(self, request_id: RequestId, answer: asyncio.Future[_Answer]) -> None:
        """Somebody wants to know the answer to a request, also after the request was given up."""
        self._expected[request_id] = answer
        if len(self._expected) > MAX_GIVEN_UP:
            del self._expected[next(iter(self._expected))]

    def _resolve_pending(self, request_id: RequestId | None, outcome: _Answer) -> None:
        answer = self._expected.pop(coerce_request_id(request_id), None) if request_id is not None else None
        if answer is not None:
            answer.set_result(outcome)
        super()._resolve_pending(request_id, outcome)

    def fail(self, request_id: object, error: dict[str, Any]) -> None:
        """End a request whose answer will not come."""
        if isinstance(request_id, int | str):
            self._resolve_pending(request_id, ErrorData(**error))

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.channel.lose(LostError("the connection ended"))


@asynccontextmanager
async def open_http(server: Server, handlers: Handlers) -> AsyncIterator[HttpChannel]:
    """To be entered and left in the same task, which is cancelled if the transport fails in a way that is not known."""
    channel = HttpChannel(server, handlers)
    headers = {name: str(value) for name, value in server.settings.headers.items()}

    def fail(request_id: object, error: dict[str, Any]) -> None:
        if channel.dispatcher is not None:
            channel.dispatcher.fail(request_id, error)

    is_sse = server.transport == "sse"
    client = HttpClient(server.max_bytes, headers, channel.answers, fail if is_sse else None, _socket(server))
    async with _streams(server, client, channel.lose) as (read, write), anyio.create_task_group() as group:
        dispatcher = _Dispatcher(read, write)
        dispatcher.channel = channel
        channel.dispatcher = dispatcher
        await group.start(dispatcher.run, channel.asked, channel.notified)
        try:
            yield channel
        except LostError:
            if server.transport == "http":  # of the older SSE all answers come on one stream, which has ended
                await channel.drain()
            raise
        finally:
            channel.lose(LostError("it was closed"))
            group.cancel_scope.cancel()


def _streams(
    server: Server, client: HttpClient, lose: Callable[[LostError], None]
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    if server.transport == "sse":
        return open_sse(server.settings.url, client, server.max_bytes, lose)
    return _streamable(server, client)


@asynccontextmanager
async def _streamable(server: Server, client: HttpClient) -> AsyncIterator[tuple[Any, Any]]:
    url, limit = server.settings.url, server.max_bytes
    if _socket(server) is not None:
        url = _URL_ON_SOCKET
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=limit) as streams:
        yield streams


def _socket(server: Server) -> str | None:
    """The path in a URL such as unix:/run/tools.sock."""
    scheme, _, path = server.settings.url.partition(":")
    return str(server.root / path.removeprefix("//")) if scheme == "unix" else None
