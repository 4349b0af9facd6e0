"""A server that runs elsewhere, reached over HTTP: streamable HTTP or the older SSE, with the transports of the SDK.

`http_client.py`, below the transports, converts each failure to an answer for the request that failed; here it becomes
an exception again.

HTTP repeats parts of a message in headers: the version of the protocol, the method, the name of the tool, and arguments
that the tool's schema marks with `x-mcp-header`. All of it is in the messages that a channel carries.
"""

from __future__ import annotations

import asyncio
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
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, ErrorData

from toolrun.logger import get_logger
from toolrun.mcp.client.channel import Handlers, Server
from toolrun.mcp.client.http_client import FAILURE, HttpClient, InSessionError, unpack
from toolrun.mcp.client.json_rpc import (
    METHOD_NOT_FOUND,
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

logger = get_logger("toolrun.mcp")

_GONE: Final = (400, 404)
"""The status with which servers say that they do not know a session: 404 by the book, 400 if written in JavaScript.
Either may be the answer to one bad request just as well."""
_PING: Final = 5.0
"""Seconds that a server has to say whether it knows the session."""
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
        """Whether the server does not know the session any more."""

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
            failure = self._failure(error)
        if isinstance(failure, InSessionError) and failure.status in _GONE and await self._is_session_forgotten():
            failure = NotSentError("it has forgotten the session; it was probably started again")
        if isinstance(failure, NotSentError):
            # Here, and not where the error occurred: otherwise the session's end could overtake the answer to the call
            # that found out.
            self.lose(LostError(str(failure)))
        raise failure

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
        """Ask for something that every session answers."""
        assert self.dispatcher is not None
        try:
            async with asyncio.timeout(_PING):
                await self.dispatcher.send_raw_request("ping", None, {"headers": self._headers.of("ping", None)})
        except MCPError as error:
            failure = self._failure(error)
            if isinstance(failure, InSessionError) and failure.status in _GONE and failure.code != METHOD_NOT_FOUND:
                self.is_forgotten = True
        except TimeoutError:
            pass
        return self.is_forgotten

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

    client = HttpClient(server.max_bytes, headers, fail if server.transport == "sse" else None)
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
async def _streams(server: Server, client: HttpClient) -> AsyncIterator[tuple[Any, Any]]:
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
