"""A server that runs elsewhere, reached over HTTP: streamable HTTP or the older SSE, with the transports of the SDK.

The SDK's transports expect a connection that works: one request that fails ends the whole session and the task that
opened it. So `_Client` converts failures to answers before the transports see them, each for the request that failed.

HTTP repeats parts of a message in headers: the version of the protocol, the method, the name of the tool, and arguments
that the tool's schema marks with `x-mcp-header`. All of it is in the messages that a channel carries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.abc
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions, DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import encode_header_value, find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR

from toolrun.mcp.client.channel import Handlers, Server
from toolrun.mcp.client.json_rpc import (
    BadAnswerError,
    LostError,
    NotSentError,
    Params,
    Read,
    Result,
    RpcError,
    report,
)
from toolrun.tools.context import OnProgress

logger = logging.getLogger("toolrun.mcp")

_UNREACHABLE: Final = -32099
"""The code of an answer that stands for a request which did not reach the server."""
_BROKEN: Final = -32098
"""The code of an answer that stands for one which broke off."""
_CONNECT: Final = 10.0
_FAREWELL: Final = 2.0
"""Seconds that the end of a session may take."""
_PHASES: Final = ("connect", "read", "write", "pool")
_SESSION_HEADER: Final = "mcp-session-id"
_GONE: Final = (400, 404)
"""The status with which servers say that they do not know a session: 404 by the book, 400 if written in JavaScript."""
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
        self.dispatcher: _Dispatcher | None = None
        self.is_forgotten = False
        """Whether the server has said that it does not know the session."""

    def submit(self, method: str, params: Params, read: Read, on_progress: OnProgress | None) -> None:
        """The SDK's transports need a coroutine for everything."""

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
    ) -> Result:
        options: CallOptions = {"headers": self._headers.of(method, params)}
        if request_id is not None:
            options["request_id"] = request_id
        if on_progress is not None:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                report(on_progress, {"progress": progress, "total": total, "message": message})

            options["on_progress"] = progressed
        result = await self._request(method, params, options)
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

    async def _request(self, method: str, params: Params | None, options: CallOptions) -> Result:
        if self.loss is not None:
            raise NotSentError(str(self.loss))
        assert self.dispatcher is not None
        try:
            return await self.dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            raise self._failure(error.code, error.message, error.error.data) from None

    def _failure(self, code: int, message: str, data: object) -> Exception:
        """The exception that an error of the SDK stands for. The session is given up here, and not where the error
        occurred: otherwise its end could overtake the answer to the call that found out."""
        # A server may use the same code, but not the words that the SDK uses when there is no answer.
        if code == _BROKEN or (code == CONNECTION_CLOSED and message.startswith(("Connection closed", "SSE stream"))):
            return LostError(str(self.loss or message))
        if code == _UNREACHABLE or self.is_forgotten:
            reason = message if code == _UNREACHABLE else "it has forgotten the session; it was probably started again"
            self.lose(LostError(reason))
            return NotSentError(reason)
        if code == PARSE_ERROR:
            logger.warning("MCP server '%s' answered with something that is not a message: %s", self._name, message)
            return BadAnswerError(message)
        return RpcError(code, message, data)

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


class _Headers:
    """The headers of each message, from the message and from those before it."""

    def __init__(self) -> None:
        self._version = ""
        """The version that a handshake agreed on."""
        self._marked: dict[str, dict[tuple[str, ...], str]] = {}
        """By tool: the arguments that are repeated in a header, and in which."""

    def of(self, method: str, params: Params | None) -> dict[str, str]:
        version = _version(params)
        if not version:  # the handshake era
            return {"mcp-protocol-version": self._version} if self._version else {}
        headers = {"mcp-protocol-version": version, "mcp-method": method}
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
        if method != "tools/list" or not _version(params) or not isinstance(listed, list):
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


def _version(params: Params | None) -> str:
    """The version that a message of the newer era names."""
    meta = params.get("_meta") if params is not None else None
    return str(meta.get(_VERSION_KEY, "")) if isinstance(meta, Mapping) else ""


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Tells its channel when it has ended."""

    channel: HttpChannel

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


class _Client(httpx2.AsyncClient):
    """Makes answers of failures, and caps what it reads."""

    def __init__(self, channel: HttpChannel, limit: int, headers: Mapping[str, str]) -> None:
        # No limit on the time for an answer: the deadline of a call is the executor's.
        timeout = httpx2.Timeout(_CONNECT, read=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
        super().__init__(headers=dict(headers), timeout=timeout, limits=limits)
        self._channel = channel
        self._limit = limit

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":
            request.extensions = {**request.extensions, "timeout": dict.fromkeys(_PHASES, _FAREWELL)}
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            return _failed(request, error)
        if request.method == "POST" and response.status_code >= 400:
            if response.status_code in _GONE and _SESSION_HEADER in request.headers:
                self._channel.is_forgotten = True
            if not _is_json(response):
                await response.aclose()
                about = f"the server answered HTTP {response.status_code} {response.reason_phrase}".rstrip()
                return _answer(request, response.status_code, INTERNAL_ERROR, about)
        if _is_json(response) and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Capped(response.stream, self._limit)
        return response


class _Capped(httpx2.AsyncByteStream):
    """A body that ends when it is too long. What goes wrong is raised as the SDK expects it of one answer."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > self._limit:
                    raise httpx2.StreamError(f"it is longer than {self._limit:,} bytes")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"it broke off: {str(error) or type(error).__name__}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def open_http(server: Server, handlers: Handlers) -> AsyncIterator[HttpChannel]:
    """To be entered and left in the same task, which is cancelled if the transport fails in a way that is not known."""
    channel = HttpChannel(server, handlers)
    headers = {name: str(value) for name, value in server.settings.headers.items()}
    client = _Client(channel, server.max_bytes, headers)
    async with _streams(server, client) as (read, write), anyio.create_task_group() as group:
        dispatcher = _Dispatcher(read, write)
        dispatcher.channel = channel
        channel.dispatcher = dispatcher
        await group.start(dispatcher.run, channel.asked, channel.notified)
        try:
            yield channel
        finally:
            channel.lose(LostError("it was closed"))
            group.cancel_scope.cancel()


@asynccontextmanager
async def _streams(server: Server, client: _Client) -> AsyncIterator[tuple[Any, Any]]:
    url = server.settings.url
    if server.transport == "sse":

        def given(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return client

        async with sse_client(url, httpx_client_factory=given) as streams:
            yield streams
        return
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=server.max_bytes) as streams:
        yield streams


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _failed(request: httpx2.Request, error: httpx2.TransportError) -> httpx2.Response:
    words = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        address = request.url.copy_with(query=None)
        return _answer(request, 503, _UNREACHABLE, f"{address} cannot be reached: {words}")
    return _answer(request, 503, _BROKEN, f"the connection broke: {words}")


def _answer(request: httpx2.Request, status: int, code: int, message: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(status, json=body, request=request)
