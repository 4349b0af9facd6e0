"""The HTTP client below the SDK's transports: turns failures into answers, and limits what is read.

The SDK's transports expect a connection that works: one request that fails ends the whole session and the task that
opened it, and a status of failure loses its words and headers. So each failure is given back as an answer to the
request that failed, in a form that `HttpChannel` reads as the exception that it stands for.

Bodies are limited by their decoded length: 1.5 MB of gzip can hold gigabytes. Servers are asked not to encode them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import httpx2

from toolrun.json import loads
from toolrun.mcp.client.http_error import HttpError, read_http_error
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, NotSentError

FAILURE: Final = -32099
"""The code of an answer that stands for a failure of HTTP."""
_MARK: Final = f"toolrun.failure.{secrets.token_hex(8)}"
"""In the data of such an answer, so that no server can give one."""
_SESSION_HEADER: Final = "mcp-session-id"
_CONNECT: Final = 10.0
_FAREWELL: Final = 2.0
"""Seconds that the end of a session may take."""
_PHASES: Final = ("connect", "read", "write", "pool")
_ERROR_BYTES: Final = 64 * 1024
"""Of the body of a failure that is not JSON."""
_ERROR_TIME: Final = 2.0
"""Seconds for the body of a failure. What has come by then is read."""
_PIECE: Final = 64 * 1024

Fail = Callable[[object, dict[str, Any]], None]
"""Ends the request of that id with a JSON-RPC error."""


class InSessionError(HttpError):
    """An HttpError whose request named a session, which the server may have forgotten."""


class HttpClient(httpx2.AsyncClient):
    def __init__(self, limit: int, headers: Mapping[str, str], fail: Fail | None = None) -> None:
        """`fail`: for the older SSE, in which an answer does not come on the response to its request."""
        # No limit on the time for an answer: the deadline of a call is the executor's.
        timeout = httpx2.Timeout(_CONNECT, read=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
        super().__init__(headers={"accept-encoding": "identity", **headers}, timeout=timeout, limits=limits)
        self._limit = limit
        self._fail = fail

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":
            request.extensions = {**request.extensions, "timeout": dict.fromkeys(_PHASES, _FAREWELL)}
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            return self._failed(request, _lost(request, error))
        self._limit_body(response)
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

    async def _failure(self, request: httpx2.Request, response: httpx2.Response) -> Exception | None:
        if response.status_code >= 400:
            error = await self._http_error(response)
            if _SESSION_HEADER in request.headers:
                return InSessionError(error.status, error.words, error.headers, error.rpc)
            return error
        kind = _kind(response)
        is_answer = kind in ("application/json", "text/event-stream") and response.status_code != 202
        if is_answer or self._fail is not None or not response.is_success or _request_id(request) is None:
            return None
        # The SDK has an error for these that says that the request was not valid. The server may have acted on it.
        what = f"with the content type {kind}" if kind else "without content"
        return BadAnswerError(f"it answered HTTP {response.status_code} {what}, and not with a message")

    async def _http_error(self, response: httpx2.Response) -> HttpError:
        limit = self._limit if _kind(response) == "application/json" else _ERROR_BYTES
        body = b""
        with suppress(TimeoutError, httpx2.StreamError, httpx2.RequestError):
            async with asyncio.timeout(_ERROR_TIME), aclosing(response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > limit:
                        break
        return read_http_error(response.status_code, response.headers, body[:limit])

    def _failed(self, request: httpx2.Request, failure: Exception) -> httpx2.Response:
        error = {"code": FAILURE, "message": str(failure), "data": {_MARK: _packed(failure)}}
        if self._fail is None:
            return httpx2.Response(500, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)
        self._fail(_request_id(request), error)
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


def _lost(request: httpx2.Request, error: httpx2.TransportError) -> LostError:
    words = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return NotSentError(f"{request.url.copy_with(query=None)} cannot be reached: {words}")
    return LostError(f"the connection broke: {words}")


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _request_id(request: httpx2.Request) -> object:
    """The id of the request in the body. None if it holds a notification or an answer."""
    try:
        message = loads(request.content)
    except ValueError:
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None
