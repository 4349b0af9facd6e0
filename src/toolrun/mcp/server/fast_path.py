"""Answers calls over HTTP in the newer era of the protocol, one POST each, without the SDK.

What the SDK does for such a request (a task group, streams, a connection, a session, models of everything) takes ten
times as long as the call itself. The SDK's rules apply all the same: a request that they refuse, or that is anything
but a plain call, goes to the SDK's application unchanged, or without its arguments if they are large.

As with the SDK, a client that goes away cancels its call, unless it gave it a key; and a client that waits long gets a
sign of life now and then, so that no proxy takes the connection for dead.
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
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import ClientDisconnect

from toolrun.json import dumps, loads
from toolrun.mcp.call_key import HEADER, META_KEY, PERSON_KEY
from toolrun.mcp.server.client_approval import APPROVAL_FIELDS, is_well_formed, parked_call
from toolrun.mcp.server.client_message import CALL, RefusedError, check_keys, read_large
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.mcp.server.request_ids import PassedRequest, RequestIds
from toolrun.mcp.server.request_trace import traced
from toolrun.mcp.server.tool_list import ServedTool
from toolrun.processes.framing import LARGE

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
        self._ids = RequestIds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        is_message = scope["method"] == "POST" and scope["path"] == self._path
        if not is_message or int(headers.get("content-length", "0")) > self._max_body:
            await self._pass_on(scope, receive, send)
            return
        messages = [await receive()]
        if messages[0].get("more_body"):
            await self._receive_rest(messages, receive)
        if messages[-1]["type"] == "http.disconnect":
            return
        body = b"".join([it.get("body", b"") for it in messages])
        if messages[-1].get("more_body"):  # too much of it, which the SDK refuses
            await self._pass_on(scope, _replaying(messages, receive), send)
            return
        try:
            request: Any = loads(body) if len(body) <= LARGE else await asyncio.to_thread(read_large, body)
            if len(body) <= LARGE and type(request) is dict and request.get("method") == CALL:
                check_keys(body, request)
        except RefusedError as refused:
            await _refuse(refused.answer, scope, send)
            return
        except ValueError:  # not JSON, which the SDK refuses
            request = None
        plain = self._plain(request, headers, scope)
        if plain is not None:
            await self._answer(*plain, headers.get(HEADER), scope, receive, send)
        elif type(request) is dict and "mcp-session-id" in headers:
            await self._pass_on_in_session(headers["mcp-session-id"], request, body, scope, receive, send)
        elif len(body) <= LARGE:
            await self._pass_on(scope, _replaying(messages, receive), send)
        else:
            await self._pass_on_large(request, scope, receive, send)

    async def _pass_on_in_session(
        self, session: str, request: dict[str, Any], body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """The SDK tells the requests of a session apart by their ids."""
        before = {**request}
        with self._ids.passing(session, request) as passed:
            if passed is not None:
                receive, send = _watching(passed, receive, send)
            if len(body) > LARGE:
                await self._pass_on_large(request, scope, receive, send)
            else:
                await self._pass_on_whole(body if request == before else dumps(request), scope, receive, send)

    async def _receive_rest(self, messages: list[Message], receive: Receive) -> None:
        """Receive until the body is complete, or longer than it may be."""
        size = len(messages[0].get("body", b""))
        while messages[-1].get("more_body") and size <= self._max_body:
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))

    async def _pass_on_large(self, request: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> None:
        with self._server.held_arguments.holding(request) as small:
            await self._pass_on_whole(small, scope, receive, send)

    async def _pass_on_whole(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        others = [it for it in scope["headers"] if it[0] not in (b"content-length", b"transfer-encoding")]
        scope["headers"] = [*others, (b"content-length", str(len(body)).encode())]
        whole: Message = {"type": "http.request", "body": body, "more_body": False}
        await self._pass_on(scope, _replaying([whole], receive), send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):  # in the middle of its request: nobody waits for an answer
            await self._app(scope, receive, noting(scope, send))

    def _plain(
        self, request: Any, headers: dict[str, str], scope: Scope
    ) -> tuple[dict[str, Any], ServedTool | None] | None:
        """The request and its tool, if it is a call that the protocol allows and that needs nothing special."""
        accepted, pairs = headers.get("accept", ""), scope["headers"]
        if (
            headers.get("mcp-method") != CALL
            or "application/json" not in accepted
            or "text/event-stream" not in accepted
            or (len(pairs) != len(headers) and _has_duplicates(pairs))
        ):
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
            and (params.keys().isdisjoint(APPROVAL_FIELDS) or is_well_formed(params))
            and "progressToken" not in meta
            and (tool is None or tool.header_schema is None)
            and isinstance(classify_inbound_request(request, headers=headers), InboundModernRoute)
        )
        return (request, tool) if is_plain else None

    async def _answer(
        self,
        request: dict[str, Any],
        tool: ServedTool | None,
        key_header: str | None,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        companions: list[_Companion] = []  # one, if the call takes long
        caller = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(
            _SOON, lambda: companions.append(_Companion(caller, scope, receive, send))
        )
        params, server, status = request["params"], self._server, 200
        name, meta = params["name"], params["_meta"]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            calling = server.call(
                name,
                tool,
                params.get("arguments"),
                True,
                key=server.given_key(meta, key_header),
                outlives_client=META_KEY not in meta,
                on_approval=parked_call(params, meta) if meta.get(CLIENT_CAPABILITIES_META_KEY) else None,
                is_person=meta.get(PERSON_KEY) is True,
            )
            if (tracer := server.executor.tracer) is not None:
                calling = traced(tracer, calling, CALL, name, meta, MODERN_PROTOCOL_VERSIONS[-1], is_http=True)
            answer["result"] = await calling
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
        """Whether the client has left, and nobody waits for the answer."""
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


async def _refuse(answer: dict[str, Any], scope: Scope, send: Send) -> None:
    body = dumps(answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope[HAS_BEGUN] = True
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def noting(scope: Scope, send: Send) -> Send:
    """Notes in the scope that the answer has begun."""

    async def noting(message: Message) -> None:
        scope[HAS_BEGUN] = True
        await send(message)

    return noting


def _watching(passed: PassedRequest, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Notices a client that leaves before it is answered, and gives answers the id of the request."""
    is_answered = False

    async def watching() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect" and not is_answered:
            passed.has_left = True
        return message

    async def answering(message: Message) -> None:
        nonlocal is_answered
        if message["type"] == "http.response.body":
            is_answered = not message.get("more_body")
            if passed.given is not None:
                message = {**message, "body": passed.restored(message.get("body", b""))}
        await send(message)

    return watching, answering


def _replaying(messages: list[Message], receive: Receive) -> Receive:
    """Gives these messages once more, and then goes on."""
    again = messages[::-1]

    async def replaying() -> Message:
        return again.pop() if again else await receive()

    return replaying
