"""One HTTP connection: how large, how slow and how many requests may be, before anything is understood.

uvicorn reads requests with httptools, and neither has a limit: a head may grow for ever, and is copied again with every
packet; half a request is kept for ever; so is an answer that nobody reads. Here it depends on what a connection waits
for how long that may take:

    state      since                            its end, if that takes too long
    IDLE       the connection, the last answer  closed after `idle_timeout`
    HEAD       the first byte of a request      408 after `head_timeout`
    BODY       the end of the head              408 after `body_timeout`, and a second more for each 32 kB
    RUNNING    the end of the body              none: a call has its own deadline, and a stream may be silent

Bytes that are no part of a body that somebody reads (a head, trailers, the body of a request that is answered already)
may be `max_head_kb` in a row: then 431.

One sweep looks after all connections, so that a request costs no timer. At the limit of connections the one that has
waited longest makes room for a new one: whoever opens many and sends nothing closes only their own.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from enum import Enum, auto
from http import HTTPStatus
from time import monotonic
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolrun.config.model import ServeSettings
from toolrun.json import dumps

_RATE: Final = 32_000
"""Bytes of a body for which a client gets one second more."""
_REASONS: Final = {
    HTTPStatus.REQUEST_TIMEOUT: "the request did not arrive in time",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the head of the request is too large",
    HTTPStatus.SERVICE_UNAVAILABLE: "all connections of this server are busy; try again later",
}


class HttpState(Enum):
    """What a connection waits for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    RUNNING = auto()


class HeadTooLargeError(Exception):
    """Raised to the parser, which then ends the connection."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection with limits. The states are in the docstring of this module."""

    def __init__(self, settings: ServeSettings, max_connections: int, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._settings = settings
        self._max_connections = max_connections
        self._max_head = settings.max_head_kb * 1000
        self.state = HttpState.IDLE
        self.since = 0.0
        self._unused = 0
        """Bytes since the last one of a body that somebody reads."""
        self._body = 0
        """Bytes of the body so far."""
        self._unread = 0
        """Bytes that the client had not read at the last check, and since when it has read nothing."""
        self._unread_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.since = self._unread_since = monotonic()
        if len(self.connections) > self._max_connections and not self._evict_idle():
            self.state = HttpState.HEAD
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def _evict_idle(self) -> bool:
        """End the connection that has waited longest. False if all others are busy."""
        others = cast(Iterable[Connection], self.connections)
        waiting = [it for it in others if it is not self and not it.is_running]
        if not waiting:
            return False
        longest = min(waiting, key=lambda it: it.since)
        self.connections.discard(longest)  # uvicorn does so only when the event loop comes to it
        longest.transport.abort()
        return True

    @property
    def is_running(self) -> bool:
        """Whether a request is being answered."""
        return self.state is HttpState.RUNNING and not self.cycle.response_complete

    # From here on once for each request or packet, and so with as little work as possible.

    def data_received(self, data: bytes) -> None:
        state = self.state
        if state is HttpState.IDLE or (state is HttpState.RUNNING and not self.is_running):
            self.state, self.since = HttpState.HEAD, monotonic()
        self._unused += len(data)
        HttpToolsProtocol.data_received(self, data)
        if self._unused > self._max_head and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        # What was received may be more than the head: then the head itself is measured.
        if self._unused > self._max_head and self._head_size() > self._max_head:
            raise HeadTooLargeError
        HttpToolsProtocol.on_headers_complete(self)
        self._unused = self._body = 0
        self.state, self.since = HttpState.BODY, monotonic()

    def on_body(self, body: bytes) -> None:
        HttpToolsProtocol.on_body(self, body)
        if not self.cycle.response_complete:
            self._unused = 0
            self._body += len(body)

    def on_message_complete(self) -> None:
        HttpToolsProtocol.on_message_complete(self)
        self._unused = 0
        self.state = HttpState.RUNNING

    # To here.

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def send_400_response(self, msg: str) -> None:
        """uvicorn's answer to what its parser refuses, which includes a head that is too large."""
        if self._unused > self._max_head:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def check(self, now: float) -> None:
        """End the connection if its client takes too long."""
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread < self._unread:
            self._unread_since = now
        elif now - self._unread_since > self._settings.idle_timeout:
            self.transport.abort()
            return
        self._unread = unread
        if self.state is HttpState.BODY and self.flow.read_paused:
            self._body, self.since = 0, now  # it is not the client that is slow
        elif self.state is HttpState.RUNNING and not self.is_running:
            self.state, self.since = HttpState.IDLE, now
        waited = now - self.since
        if self.transport.is_closing():
            return
        if self.state is HttpState.IDLE and waited > self._settings.idle_timeout:
            self.transport.close()
        elif (self.state is HttpState.HEAD and waited > self._settings.head_timeout) or (
            self.state is HttpState.BODY and waited > self._settings.body_timeout + self._body / _RATE
        ):
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """Close the connection; with an answer, if the client can tell what it answers."""
        if self.state is HttpState.HEAD or (self.state is HttpState.BODY and not self.cycle.response_started):
            body = dumps({"error": _REASONS[status]})
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.transport.close()


async def sweep(connections: Iterable[Any], settings: ServeSettings) -> None:
    """Check all connections from time to time, until cancelled."""
    shortest = min(settings.head_timeout, settings.body_timeout, settings.idle_timeout)
    pause = max(0.02, min(1.0, shortest / 4))
    while True:
        await asyncio.sleep(pause)
        now = monotonic()
        for connection in list(connections):
            connection.check(now)


def most_connections(settings: ServeSettings) -> int:
    """As many as wanted, but at most half of the files that this process may open: tools need the others."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return settings.max_connections if files == resource.RLIM_INFINITY else min(settings.max_connections, files // 2)
