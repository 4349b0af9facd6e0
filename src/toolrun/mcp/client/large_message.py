"""Large messages over HTTP, which the SDK would write and read in one call each on the event loop.

Arguments are handed to the SDK as the JSON text that they are sent as. Of a large message from the server the SDK gets
a small one in its place: what the large one says is read in a thread, and kept for the request that it answers. In
small ones, halves of surrogate pairs are replaced, for which the SDK refuses the whole message.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx2

from toolrun.json import JSONDecodeError, dumps, loads
from toolrun.json_pieces import loads_in_pieces
from toolrun.logger import get_logger
from toolrun.mcp.client.foreign_json import loads_foreign, whole_characters
from toolrun.mcp.client.json_rpc import BadAnswerError, Result, read_answer
from toolrun.processes.framing import LARGE, is_mostly_text

logger = get_logger("toolrun.mcp")

_AN_ID: Final = re.compile(rb'"id"\s*:\s*"?([\w-]+)"?\s*[,}]')
_END: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
"""An empty line: the end of an event."""
_OVERLAP: Final = 3
"""Bytes of it that may be at the end of one chunk, if the rest is at the beginning of the next."""
_MAX_SHOWN: Final = 10_000
"""Characters of a text in a large notification."""
_NOTHING: Final = b":\n\n"

RequestId = int | str
Answer = tuple[Result | None, Exception | None]


class JsonText(str):
    """JSON text that is to be sent as it is. Whoever shows it shows nothing: a log line need not repeat megabytes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<JSON, {len(self)} characters>"


def with_text(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The params of a request with its arguments as text."""
    if "arguments" not in params:
        return params
    return {**params, "arguments": JsonText(dumps(params["arguments"]).decode())}


def write_message(message: Mapping[str, Any]) -> bytes:
    """The JSON of a message whose params may hold arguments as text."""
    params = message.get("params")
    text = params.get("arguments") if isinstance(params, dict) else None
    if params is None or not isinstance(text, str):
        return dumps(message)
    others = {key: value for key, value in params.items() if key != "arguments"}
    head = dumps({**{key: value for key, value in message.items() if key != "params"}, "params": others})
    comma = b"," if others else b""
    return b"".join((head[:-2], comma, b'"arguments":', text.encode(), b"}}"))


class LargeAnswers:
    """The large answers to the requests of one connection."""

    def __init__(self) -> None:
        self._answers: dict[RequestId, Answer | None] = {}

    def expect(self, request_id: RequestId) -> None:
        """Somebody waits for an answer, until `forget`."""
        self._answers[request_id] = None

    def get(self, request_id: RequestId) -> Answer | None:
        """The answer, if it was a large one."""
        return self._answers.get(request_id)

    def forget(self, request_id: RequestId) -> None:
        self._answers.pop(request_id, None)

    async def replace(self, parts: list[bytes], request_id: RequestId | None, *, is_event: bool) -> bytes:
        """What the SDK gets in place of a large message. `request_id` is the request that it came in answer to."""
        if is_mostly_text(parts, sum(map(len, parts))):
            return self._replace(parts, request_id, is_event)
        return await asyncio.to_thread(self._replace, parts, request_id, is_event)

    def addressed(self, data: bytes, request_id: RequestId) -> bytes:
        """A small message that is all of an answer, if it says so. Otherwise nobody would wait for another in vain."""
        if any(found[1].decode() == str(request_id) for found in _AN_ID.finditer(data)):
            return data
        try:
            message = loads(data)
        except JSONDecodeError:
            return data  # the SDK has its own word for it
        if not isinstance(message, dict) or ("method" not in message and str(message.get("id")) == str(request_id)):
            return data
        if message.get("id") is None and "method" not in message and isinstance(message.get("error"), dict):
            return dumps({**message, "id": request_id})  # what it could not read was this request
        return self._keep(request_id, (None, BadAnswerError("its answer does not have the id of the request")))

    def _replace(self, parts: list[bytes], request_id: RequestId | None, is_event: bool) -> bytes:
        body = b"".join(parts)
        if not is_event:
            return self._read(body, request_id)
        lines = body.splitlines()
        data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        others = [line for line in lines if line and not line.startswith((b"data:", b":"))]
        kinds = [line.partition(b":")[2].strip() for line in others if line.startswith(b"event")]
        if kinds and kinds[-1] not in (b"", b"message"):
            return body
        small = self._read(b"\n".join(data), request_id)
        return b"\n".join((*others, b"data: " + small, b"", b"")) if small else _NOTHING

    def _read(self, data: bytes, request_id: RequestId | None) -> bytes:
        """A small message in place of the large one. Empty if nobody wants it."""
        try:
            message = self._parse(data)
        except JSONDecodeError as error:
            return self._keep(request_id, (None, BadAnswerError(f"its answer was not JSON ({error})")))
        if not isinstance(message, dict):
            return self._keep(request_id, (None, BadAnswerError("its answer was not a JSON-RPC message")))
        if "method" not in message:
            return self._keep(
                self._known(message.get("id")) if request_id is None else request_id, read_answer(message)
            )
        params = message.get("params")
        return dumps({**message, "params": _outline(params)} if isinstance(params, dict) else {"jsonrpc": "2.0"})

    @staticmethod
    def _parse(data: bytes) -> Any:
        try:
            return loads(data) if is_mostly_text([data], len(data)) else loads_in_pieces(data)
        except JSONDecodeError as error:
            with contextlib.suppress(JSONDecodeError):
                return loads_foreign(data)
            raise error from None

    def _keep(self, request_id: RequestId | None, answer: Answer) -> bytes:
        if request_id is None:
            logger.warning("a large message of an MCP server is skipped: it is no answer to a request, nor a request")
            return b""
        if request_id in self._answers:
            self._answers[request_id] = answer
        return dumps({"jsonrpc": "2.0", "id": request_id, "result": {}})

    def _known(self, number: object) -> RequestId | None:
        """The request with that id, which some servers make text of."""
        if isinstance(number, str) and number not in self._answers and number.isdecimal():
            number = int(number)
        return number if isinstance(number, int | str) and number in self._answers else None


class WholeMessage(httpx2.AsyncByteStream):
    """A body that is one message."""

    def __init__(self, stream: httpx2.AsyncByteStream, answers: LargeAnswers, request_id: RequestId) -> None:
        self._stream = stream
        self._answers = answers
        self._request_id = request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        async for chunk in self._stream:
            parts.append(chunk)
            size += len(chunk)
        if size > LARGE:
            yield await self._answers.replace(parts, self._request_id, is_event=False)
        else:
            yield self._answers.addressed(whole_characters(b"".join(parts)), self._request_id)

    async def aclose(self) -> None:
        await self._stream.aclose()


class Events(httpx2.AsyncByteStream):
    """A stream of events. Each is passed on when it has ended, as it is unless it is large.

    One that is longer than `limit` is passed on before: the SDK refuses it.
    """

    def __init__(
        self, stream: httpx2.AsyncByteStream, answers: LargeAnswers, request_id: RequestId | None, limit: int
    ) -> None:
        self._stream = stream
        self._answers = answers
        self._request_id = request_id
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes] = []
        size = 0
        async for chunk in self._stream:
            before = held[-1][-_OVERLAP:] if held else b""
            first, last = _ends(before, chunk)
            if not last:
                held.append(chunk)
                size += len(chunk)
            elif size + first > LARGE:
                yield await self._answers.replace([*held, chunk[:first]], self._request_id, is_event=True)
                if last > first:
                    yield whole_characters(chunk[first:last])
            else:
                yield whole_characters(b"".join((*held, chunk[:last])))
            if last:
                held, size = [chunk[last:]] if last < len(chunk) else [], len(chunk) - last
            if size > self._limit:
                yield b"".join(held)
                held, size = [], 0
        if held:
            yield b"".join(held)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _ends(before: bytes, chunk: bytes) -> tuple[int, int]:
    """Where the first and the last event end in a chunk; 0 if none does. `before` is the end of the chunk before it."""
    if b"\n" not in chunk and b"\r" not in chunk:
        return 0, 0
    found = [end - len(before) for it in _END.finditer(before + chunk) if (end := it.end()) > len(before)]
    return (found[0], found[-1]) if found else (0, 0)


def _outline(params: dict[str, Any]) -> dict[str, Any]:
    """What there is to know of a large notification: numbers, and the beginning of texts."""
    return {
        key: value[:_MAX_SHOWN] if isinstance(value, str) else value
        for key, value in params.items()
        if value is None or isinstance(value, str | int | float)
    }
