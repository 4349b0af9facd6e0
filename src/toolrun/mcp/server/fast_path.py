"""Calls over HTTP in the newer era of the protocol, each one POST, answered here and not by the SDK.

What the SDK does for such a request (a task group, streams, a connection, a session, models of everything) takes ten
times as long as the call itself. Its rules are used as they are: a request that they refuse, or that is anything but a
plain call, goes on to the SDK's application unchanged.

As there, a client that goes away cancels its call, and one that waits long is sent a sign of life now and then, so that
no proxy takes the connection for dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)

from toolrun.json import dumps, loads
from toolrun.mcp.server.mcp_server import McpServer

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SOON: Final = 0.05
"""Seconds after which somebody looks whether the client is still there. Most calls have ended by then."""
_SIGN_OF_LIFE: Final = 15.0
_EVENTS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]


class Exchange:
    """An ASGI application before the SDK's."""

    def __init__(self, app: App, server: McpServer, path: str, max_body: int) -> None:
        self._app = app
        self._server = server
        self._path = path
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._may_be_call(scope, headers):
            await self._app(scope, receive, send)
            return
        first = await receive()
        request = None if first.get("more_body") else self._read(first.get("body", b""), headers)
        if request is None:
            await self._app(scope, _again(first, receive), send)
        else:
            await _Answering(self._server, request, receive, send).run()

    def _may_be_call(self, scope: Scope, headers: dict[str, str]) -> bool:
        accepted = headers.get("accept", "")
        return (
            headers.get("mcp-method") == "tools/call"
            and scope["method"] == "POST"
            and scope["path"] == self._path
            and "application/json" in accepted
            and "text/event-stream" in accepted
            and int(headers.get("content-length", "0")) <= self._max_body
            and find_duplicated_routing_header((name.decode("latin-1"), "") for name, _ in scope["headers"]) is None
        )

    def _read(self, body: bytes, headers: dict[str, str]) -> dict[str, Any] | None:
        """The request, if it is a call that the protocol allows and that needs nothing special."""
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
        is_plain = (
            (arguments is None or isinstance(arguments, dict))
            and "progressToken" not in meta
            and not self._server.wants_headers(name)
            and isinstance(classify_inbound_request(request, headers=headers), InboundModernRoute)
        )
        return request if is_plain else None


class _Answering:
    """One call, and what is to be done while it runs."""

    def __init__(self, server: McpServer, request: dict[str, Any], receive: Receive, send: Send) -> None:
        self._server = server
        self._request = request
        self._receive = receive
        self._send = send
        self._caller = asyncio.current_task()
        self._company: asyncio.Task[None] | None = None
        self._is_gone = False
        self._is_stream = False

    async def run(self) -> None:
        timer = asyncio.get_running_loop().call_later(_SOON, self._begin_company)
        params, status = self._request["params"], 200
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self._request["id"]}
        try:
            answer["result"] = await self._server.call(params["name"], params.get("arguments"), True)
        except MCPError as error:
            answer["error"] = {"code": error.error.code, "message": error.error.message}
            status = ERROR_CODE_HTTP_STATUS.get(error.error.code, 200)
        except asyncio.CancelledError:
            if not self._is_gone:
                raise
            return  # there is nobody to answer
        finally:
            timer.cancel()
            if self._company is not None:
                self._company.cancel()
                await asyncio.wait([self._company])
        await self._answer(dumps(answer), status)

    async def _answer(self, body: bytes, status: int) -> None:
        if self._is_stream:
            event = b"event: message\r\ndata: " + body + b"\r\n\r\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": False})
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _begin_company(self) -> None:
        self._company = asyncio.create_task(self._accompany())

    async def _accompany(self) -> None:
        """Watch the client while its call runs, and let it know that it does."""
        leaving = asyncio.create_task(self._leave())
        try:
            while not (await asyncio.wait([leaving], timeout=_SIGN_OF_LIFE))[0]:
                if not self._is_stream:
                    self._is_stream = True
                    await self._send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
                await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
        finally:
            leaving.cancel()
        self._is_gone = True
        assert self._caller is not None
        self._caller.cancel()

    async def _leave(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _again(first: Message, receive: Receive) -> Receive:
    """What gives the first message once more, and then goes on."""
    messages = [first]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed
