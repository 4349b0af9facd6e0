"""The HTTP client below the SDK's transports: turns failures into answers, and limits what is read.

The SDK's transports expect a connection that works: one request that fails ends the whole session and the task that
opened it, and a status of failure loses its words and headers. So each failure is given back as an answer to the
request that failed, in a form that `HttpChannel` reads as the exception that it stands for.

Bodies are limited by their decoded length: 1.5 MB of gzip can hold gigabytes. Servers are asked not to encode them.

The SDK follows a redirect that keeps the method and the origin. It does so once: a server that redirects again and
again would get the same message each time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import httpx2
from mcp.shared._httpx_utils import next_request_within_origin, redirect_location
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolrun.mcp.client.http_error import MAX_BODY, HttpError, read_http_error
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, NotSentError
from toolrun.mcp.client.large_message import Events, LargeAnswers, WholeMessage, write_message

FAILURE: Final = -32099
"""The code of an answer that stands for a failure of HTTP."""
_MARK: Final = f"toolrun.failure.{secrets.token_hex(8)}"
"""In the data of such an answer, so that no server can give one."""
_SESSION_HEADER: Final = "mcp-session-id"
_VERSION_HEADER: Final = "mcp-protocol-version"
_CONNECT: Final = 10.0
_FAREWELL: Final = 2.0
"""Seconds that the end of a session may take."""
_PHASES: Final = ("connect", "read", "write", "pool")
_MAX_REDIRECTS: Final = 1
_FIRST_FAILURE: Final = 300
"""The first status that is no success. The server may have acted on a request that it redirects, too."""
_ERROR_TIME: Final = 2.0
"""Seconds for the body of a failure. What has come by then is read."""
_PIECE: Final = 64 * 1024
_ID: Final = "toolrun.request_id"
"""The extension of an HTTP request that has the id of the JSON-RPC request in it. None: it holds none."""
_REDIRECTED: Final = "toolrun.redirected"
"""The extension of a request that follows a redirect."""

Fail = Callable[[object, dict[str, Any]], None]
"""Ends the request of that id with a JSON-RPC error."""


class InSessionError(HttpError):
    """An HttpError whose request named a session, which the server may have forgotten."""


class HttpClient(httpx2.AsyncClient):
    def __init__(
        self,
        limit: int,
        headers: Mapping[str, str],
        answers: LargeAnswers,
        fail: Fail | None = None,
        socket: str | None = None,
    ) -> None:
        """`fail`: for the older SSE, in which an answer does not come on the response to its request.

        `socket`: the path of a UNIX socket to connect to, whatever the URL says.
        """
        # No limit on the time for an answer: the deadline of a call is the executor's.
        timeout = httpx2.Timeout(_CONNECT, read=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
        headers = {"accept-encoding": "identity", **headers}
        transport = None if socket is None else httpx2.AsyncHTTPTransport(uds=socket, limits=limits)
        super().__init__(
            headers=headers, timeout=timeout, limits=limits, max_redirects=_MAX_REDIRECTS, transport=transport
        )
        self._limit = limit
        self._answers = answers
        self._fail = fail

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        message = options.pop("json", None)
        if message is None:
            return super().build_request(method, url, **options)
        headers = {"content-type": "application/json", **(options.pop("headers", None) or {})}
        extensions = {**(options.pop("extensions", None) or {}), _ID: message.get("id")}
        if "method" not in message:  # an answer of ours
            del extensions[_ID]
        body = write_message(message)
        return super().build_request(method, url, content=body, headers=headers, extensions=extensions, **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.headers.get(_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            # A server of both eras has given a session to the handshake that it got at the same time.
            request.headers.pop(_VERSION_HEADER if request.method == "DELETE" else _SESSION_HEADER, None)
        if request.method == "DELETE":
            request.extensions = {**request.extensions, "timeout": dict.fromkeys(_PHASES, _FAREWELL)}
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            return self._failed(request, _lost(request, error))
        self._limit_body(response)
        self._keep_large_messages(request, response)
        if request.method == "POST":
            failure = await self._failure(request, response)
            if failure is not None:
                await response.aclose()
                return self._failed(request, failure)
        elif request.method == "GET" and response.status_code >= 400 and self._fail is not None:
            refusal = await self._http_error(response)
            await response.aclose()
            raise LostError(refusal.summary)
        return response

    def _limit_body(self, response: httpx2.Response) -> None:
        """An event stream may go on for ever, its events are limited by the SDK; but none that is encoded."""
        encoding = response.headers.pop("content-encoding", "").strip().lower()
        is_events = _kind(response) == "text/event-stream"
        is_encoded = encoding not in ("", "identity")
        if isinstance(response.stream, httpx2.AsyncByteStream) and (is_encoded or not is_events):
            response.stream = _Limited(response.stream, encoding if is_encoded else "", self._limit, is_events)

    def _keep_large_messages(self, request: httpx2.Request, response: httpx2.Response) -> None:
        kind, number, stream = _kind(response), request.extensions.get(_ID), response.stream
        if not response.is_success or not isinstance(stream, httpx2.AsyncByteStream):
            return
        if kind == "text/event-stream":
            response.stream = Events(stream, self._answers, number, self._limit)
        elif kind == "application/json" and number is not None:
            response.stream = WholeMessage(stream, self._answers, number)

    async def _failure(self, request: httpx2.Request, response: httpx2.Response) -> Exception | None:
        if _is_followed(request, response):
            return None
        if response.status_code >= _FIRST_FAILURE:
            error = await self._http_error(response)
            if _SESSION_HEADER in request.headers:
                return InSessionError(error.status, error.words, error.headers, error.rpc)
            return error
        kind = _kind(response)
        is_answer = kind in ("application/json", "text/event-stream") and response.status_code != 202
        if is_answer or self._fail is not None or request.extensions.get(_ID) is None:
            return None
        # The SDK has an error for these that says that the request was not valid. The server may have acted on it.
        what = f"with the content type {kind}" if kind else "without content"
        return BadAnswerError(f"it answered HTTP {response.status_code} {what}, and not with a message")

    async def _http_error(self, response: httpx2.Response) -> HttpError:
        parts: list[bytes] = []
        size = 0
        with suppress(TimeoutError, httpx2.StreamError, httpx2.RequestError):
            async with asyncio.timeout(_ERROR_TIME), aclosing(response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    parts.append(chunk)
                    size += len(chunk)
                    if size > MAX_BODY:
                        break
        location = redirect_location(response)
        headers = {**response.headers, "location": str(location or "")}
        return read_http_error(response.status_code, headers, b"".join(parts))

    def _failed(self, request: httpx2.Request, failure: Exception) -> httpx2.Response:
        error = {"code": FAILURE, "message": str(failure), "data": {_MARK: _packed(failure)}}
        if self._fail is None:
            return httpx2.Response(500, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)
        self._fail(request.extensions.get(_ID), error)
        return httpx2.Response(202, request=request)


class _Limited(httpx2.AsyncByteStream):
    """A body, decoded, that ends when it is too long. What goes wrong is raised as the SDK expects it of one answer."""

    def __init__(self, stream: httpx2.AsyncByteStream, encoding: str, limit: int, is_events: bool) -> None:
        self._stream = stream
        self._encoding = encoding
        self._limit = limit
        self._error = httpx2.SSEError if is_events else httpx2.StreamError

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if "," in self._encoding:  # decoding one after the other multiplies
            raise self._error(f"it is encoded several times ({self._encoding})")
        headers = {"content-encoding": self._encoding} if self._encoding else {}
        size = 0
        try:
            async with aclosing(httpx2.Response(200, headers=headers, stream=self._stream).aiter_bytes()) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > self._limit:
                        raise self._error(f"it is longer than {self._limit:,} bytes")
                    for start in range(0, len(chunk), _PIECE):
                        yield chunk[start : start + _PIECE]
                        if len(chunk) > _PIECE:  # one that was decoded: nothing else ran meanwhile
                            await asyncio.sleep(0)
        except httpx2.DecodingError as error:
            raise self._error(f"it cannot be decoded: {error}") from error
        except httpx2.RequestError as error:
            raise self._error(f"it broke off: {str(error) or type(error).__name__}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


def unpack(data: object) -> Exception | None:
    """The failure that the data of an error stands for."""
    packed = data.get(_MARK) if isinstance(data, Mapping) else None
    if not isinstance(packed, Mapping):
        return None
    kind = _KINDS.get(str(packed.get("kind")))
    if kind is not None:
        return kind(str(packed.get("message")))
    error = HttpError.from_dict(packed)
    return InSessionError(error.status, error.words, error.headers, error.rpc) if packed["in_session"] else error


_KINDS: Final[Mapping[str, type[Exception]]] = {
    kind.__name__: kind for kind in (BadAnswerError, LostError, NotSentError)
}


def _packed(failure: Exception) -> dict[str, Any]:
    if isinstance(failure, HttpError):
        return {**failure.to_dict(), "in_session": isinstance(failure, InSessionError)}
    return {"kind": type(failure).__name__, "message": str(failure)}


def _is_followed(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether the SDK sends the request again to where this response redirects it."""
    following = next_request_within_origin(response)
    if following is None or _REDIRECTED in request.extensions:
        return False
    following.extensions = {**following.extensions, _REDIRECTED: True}
    return True


def _lost(request: httpx2.Request, error: httpx2.TransportError) -> LostError:
    words = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return NotSentError(f"{request.url.copy_with(query=None)} cannot be reached: {words}")
    return LostError(f"the connection broke: {words}")


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()
