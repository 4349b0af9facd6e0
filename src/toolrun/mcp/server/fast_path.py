"""Answers calls over HTTP in the newer era of the protocol, one POST each, without the SDK.

What the SDK does for such a request (a task group, streams, a connection, a session, models of everything) takes ten
times as long as the call itself. The SDK's rules apply all the same: a request that they refuse, or that is anything
but a plain call, goes to the SDK's application unchanged.

As with the SDK, a client that goes away cancels its call, and a client that waits long gets a sign of life now and
then, so that no proxy takes the connection for dead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from starlette.requests import ClientDisconnect

from toolrun.json import dumps, loads
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.mcp.server.tool_list import ServedTool

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HAS_BEGUN: Final = "toolrun.has_begun"
"""Set in the scope of a request when its answer has begun, for whoever has to end it early."""
_SOON: Final = 0.05
"""Seconds after which a companion watches the client. Most calls have ended by then."""
_SIGN_OF_LIFE: Final = 15.0
_EVENTS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]


class FastPath:
    """An ASGI application in front of the SDK's."""

    def __init__(self, app: App, server: McpServer, path: str, max_body: int) -> None:
        self._app = app
        self._server = server
        self._path = path
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._may_be_call(scope, headers):
            await self._pass_on(scope, receive, send)
            return
        first = await receive()
        if first["type"] == "http.disconnect":
            return
        plain = None if first.get("more_body") else self._read(first.get("body", b""), headers)
        if plain is None:
            await self._pass_on(scope, _replaying(first, receive), send)
        else:
            await self._answer(*plain, scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):  # in the middle of its request: nobody waits for an answer
            await self._app(scope, receive, _noting(scope, send))

    def _may_be_call(self, scope: Scope, headers: dict[str, str]) -> bool:
        accepted, pairs = headers.get("accept", ""), scope["headers"]
        return (
            headers.get("mcp-method") == "tools/call"
            and scope["method"] == "POST"
            and scope["path"] == self._path
            and "application/json" in accepted
            and "text/event-stream" in accepted
            and int(headers.get("content-length", "0")) <= self._max_body
            and (len(pairs) == len(headers) or not _has_duplicates(pairs))
        )

    def _read(self, body: bytes, headers: dict[str, str]) -> tuple[dict[str, Any], ServedTool | None] | None:
        """The request and its tool, if it is a call that the protocol allows and that needs nothing special."""
        try:
            request = loads(body)
        except ValueError:
            return None
        match request:
            case {
                "jsonrpc": "2.0",
                "id": int() | str() as number,
                "method": "tools/call",
                "params": {"name": str() as name, "_meta": dict() as meta} as params,
            } if not isinstance(number, bool):
                arguments = params.get("arguments")
            case _:
                return None
        tool = self._server.tools.find(name)
        is_plain = (
            (arguments is None or isinstance(arguments, dict))
            and "progressToken" not in meta
            and (tool is None or tool.header_schema is None)
            and isinstance(classify_inbound_request(request, headers=headers), InboundModernRoute)
        )
        return (request, tool) if is_plain else None

    async def _answer(
        self, request: dict[str, Any], tool: ServedTool | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        companions: list[_Companion] = []  # one, if the call takes long
        caller = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(
            _SOON, lambda: companions.append(_Companion(caller, scope, receive, send))
        )
        params, status = request["params"], 200
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            answer["result"] = await self._server.call(params["name"], tool, params.get("arguments"), True)
        except MCPError as error:
            answer["error"] = {"code": error.error.code, "message": error.error.message}
            status = ERROR_CODE_HTTP_STATUS.get(error.error.code, 200)
        except asyncio.CancelledError:
            if any(it.is_gone for it in companions):
                return  # the client has left
            raise
        finally:
            timer.cancel()
            for companion in companions:
                await companion.end()
        body = dumps(answer)
        if HAS_BEGUN in scope:  # as a stream of events
            body = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            scope[HAS_BEGUN] = True
            await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


class _Companion:
    """Watches the client of a call that takes long, and sends it signs of life."""

    def __init__(self, caller: asyncio.Task[Any] | None, scope: Scope, receive: Receive, send: Send) -> None:
        self._caller = caller
        self._scope = scope
        self._receive = receive
        self._send = send
        self.is_gone = False
        """Whether the client has left, and its call was cancelled for that."""
        self._task = asyncio.create_task(self._watch())

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _watch(self) -> None:
        leaving = asyncio.create_task(self._leave())
        try:
            while not (await asyncio.wait([leaving], timeout=_SIGN_OF_LIFE))[0]:
                if HAS_BEGUN not in self._scope:
                    self._scope[HAS_BEGUN] = True
                    await self._send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
                await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
        finally:
            leaving.cancel()
        self.is_gone = True
        assert self._caller is not None
        self._caller.cancel()

    async def _leave(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _has_duplicates(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a header that says where a request goes is there twice."""
    return find_duplicated_routing_header((name.decode("latin-1"), "") for name, _ in headers) is not None


def _noting(scope: Scope, send: Send) -> Send:
    """Notes in the scope that the answer has begun."""

    async def noting(message: Message) -> None:
        scope[HAS_BEGUN] = True
        await send(message)

    return noting


def _replaying(first: Message, receive: Receive) -> Receive:
    """Gives the first message once more, and then goes on."""
    messages = [first]

    async def replaying() -> Message:
        return messages.pop() if messages else await receive()

    return replaying
