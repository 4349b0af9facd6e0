"""The older transport over HTTP: messages come as events of one stream, and are sent to an endpoint that it names.

The SDK has a client for it, which takes no event of more than 1 MiB, and ends the task that opened it when one comes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.abc
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared._httpx_utils import request_within_origin, stream_within_origin
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from toolrun.mcp.client.json_rpc import LostError

_HEADERS: Final = {"accept": "text/event-stream", "cache-control": "no-store"}

Lose = Callable[[LostError], None]
"""Called with the reason when no further message can come."""
Messages = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def open_sse(url: str, client: httpx2.AsyncClient, limit: int, lose: Lose) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of messages to read and to write. `limit` is the size of the largest event, in bytes.

    `client` turns requests that fail into answers; it is closed at the end. Raises LostError.
    """
    async with client, stream_within_origin(client, "GET", url, headers=_HEADERS) as response:
        if not response.is_success:
            raise LostError(f"it answered HTTP {response.status_code}, and not with a stream of events")
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        events = httpx2.EventSource(response, max_event_size=limit)
        async with incoming, read, write, outgoing, anyio.create_task_group() as group:
            endpoint = await group.start(_receive, events, url, incoming, lose)
            group.start_soon(_send, client, endpoint, outgoing)
            yield read, write
            group.cancel_scope.cancel()


async def _receive(
    events: httpx2.EventSource,
    url: str,
    incoming: Messages,
    lose: Lose,
    *,
    task_status: anyio.abc.TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Pass the messages on until the stream ends. Has started when the server has named its endpoint."""
    endpoint = ""
    async with incoming:
        try:
            async for event in events:
                if event.event == "endpoint" and not endpoint:
                    endpoint = _endpoint(url, event.data)
                    task_status.started(endpoint)
                elif event.event == "message" and event.data and endpoint:
                    await incoming.send(_message(event.data))
            reason = "it ended the stream of events"
        except httpx2.HTTPError as error:
            reason = f"the stream of events broke: {str(error) or type(error).__name__}"
            if endpoint and isinstance(error, httpx2.SSEError):
                reason += " [mcp] max_message_mb sets the limit."
        if not endpoint:
            raise LostError(f"{reason}, and has named no endpoint")
        lose(LostError(reason))


async def _send(client: httpx2.AsyncClient, endpoint: str, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async for item in outgoing:
        message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        await request_within_origin(client, "POST", endpoint, json=message)


def _endpoint(url: str, named: str) -> str:
    """Where messages are sent: nowhere but to the server itself."""
    endpoint = urljoin(url, named)
    if urlsplit(endpoint)[:2] != urlsplit(url)[:2]:
        raise LostError(f"it names an endpoint of another server: {endpoint}")
    return endpoint


def _message(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        return error
