"""What all provider servers share: a script of answers, a record of requests, HTTP on loopback.

    with AnthropicServer() as server:
        server.play(Step(calls=[Asked("add", {"a": 1, "b": 2})]), Step(text="3"))
        …  ChatAnthropic(base_url=server.url, api_key="x", …)
        assert server.requests[0].body["tools"] …

One step answers one request, in order; a request beyond the script is refused with status 400, as is one that breaks a
rule of the provider, which is noted in `server.violations`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

PATIENCE = 30.0
"""Seconds that a held answer waits at most."""


UNSET: Any = object()


@dataclass(frozen=True)
class Asked:
    """A tool call that the model makes."""

    name: str
    arguments: Mapping[str, Any] | None = None
    id: str | None = None
    """None: the server makes one; an empty one is sent as it is."""
    raw: Any = UNSET
    """The arguments as they are sent, where they are not the JSON of `arguments`: text, or on Ollama anything."""


@dataclass(frozen=True)
class Step:
    """How one request is answered."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[Asked] = ()
    stop: str | None = None
    """The reason for the end in the provider's words; None is what fits the answer."""
    status: int = 200
    error: str = ""
    """The message of a status other than 200; with 200, an error event at the end of the stream."""
    headers: Mapping[str, str] = field(default_factory=dict)
    refuse: bool = False
    """Close the connection without an answer."""
    cut_after: int | None = None
    """Break the connection after so many events of the stream."""
    end_after: int | None = None
    """End the stream after so many events, as if that were all."""
    body: bytes | None = None
    """Sent instead of an answer."""
    chunk: int = 12
    """Characters of one piece of a stream."""
    hold: threading.Event | None = None
    """Answer only once it is set. `Server.held` tells that a request has arrived and waits."""
    hold_after: int | None = None
    """… after so many events of the stream; None before the first byte."""


Body = dict[str, Any]
Script = Step | Callable[[Body], Step]


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Body


class Server:
    """An HTTP server on a free port of the loopback interface."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        """Those that ask the model; questions about models and versions are in `others`."""
        self.others: list[Request] = []
        self.violations: list[str] = []
        self.held = threading.Event()
        self._script: deque[Script] = deque()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._connections: set[socket.socket] = set()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join(PATIENCE)
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # a handler that waits for a next request ends
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def bodies(self) -> list[Body]:
        return [request.body for request in self.requests]

    def play(self, *steps: Script) -> Self:
        """Answer the next requests like this. A function gets the body of its request."""
        self._script.extend(steps)
        return self

    def forget(self) -> None:
        """Leave out what is left of the script, and the rules that were broken so far."""
        self._script.clear()
        self.violations.clear()

    @property
    def remaining(self) -> int:
        return len(self._script)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._ids):08d}"

    def next_step(self, body: Body) -> Step | None:
        with self._lock:
            if not self._script:
                return None
            step = self._script.popleft()
        return step if isinstance(step, Step) else step(body)

    def answer(self, exchange: Exchange) -> None:
        """Answer one request. For the protocol to implement."""
        raise NotImplementedError

    def wait_for(self, step: Step) -> None:
        if step.hold is not None:
            self.held.set()
            step.hold.wait(PATIENCE)


class Exchange:
    """One request and its answer."""

    def __init__(self, handler: _Handler, request: Request) -> None:
        self._handler = handler
        self.request = request
        self.body = request.body
        self.path = request.path.split("?")[0]

    def send_json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.send_bytes(json.dumps(value).encode(), status, {"content-type": "application/json", **(headers or {})})

    def send_bytes(self, data: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        handler = self._handler
        handler.send_response(status)
        for name, value in {**(headers or {}), "content-length": str(len(data))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    def send_stream(self, step: Step, content_type: str, events: Iterable[bytes]) -> None:
        """Send events one by one, and stop where the script says so."""
        handler = self._handler
        handler.send_response(200)
        handler.send_header("content-type", content_type)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for count, event in enumerate(events):
            if step.cut_after == count:
                return self.cut()
            if step.end_after == count:
                break
            if step.hold_after == count:
                handler.owner.wait_for(step)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")
        handler.wfile.flush()

    def cut(self) -> None:
        handler = self._handler
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.connection.shutdown(socket.SHUT_RDWR)

    def is_out_of_the_ordinary(self, step: Step) -> bool:
        """Do what the script says instead of an answer, if it does."""
        if step.hold_after is None:
            self._handler.owner.wait_for(step)
        if step.refuse:
            self.cut()
        elif step.body is not None:
            self.send_bytes(step.body, step.status, {"content-type": "application/json", **step.headers})
        else:
            return False
        return True


class _Handler(BaseHTTPRequestHandler):
    """One request a connection, so that clients have nothing left to close."""

    protocol_version = "HTTP/1.1"
    owner: ClassVar[Server]

    def setup(self) -> None:
        super().setup()
        with self.owner._lock:
            self.owner._connections.add(self.connection)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        with self.owner._lock:
            self.owner._connections.discard(self.connection)

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client has gone
            super().handle()

    def end_headers(self) -> None:
        self.send_header("connection", "close")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Tests have their own way of saying what happened."""

    def do_GET(self) -> None:
        self._exchange({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            self._exchange(_strict_json(raw) if raw else {})
        except ValueError as error:
            self.owner.violations.append(f"the body is not JSON: {error}")
            self.send_error(400)

    def _exchange(self, body: Body) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        exchange = Exchange(self, Request(self.command, self.path, headers, body))
        with contextlib.suppress(ConnectionError):
            self.owner.answer(exchange)


def _strict_json(raw: bytes) -> Body:
    """The body as providers read it: no NaN, no halves of surrogate pairs, not too deep. Raises ValueError."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    body: Body = json.loads(raw.decode("utf-8", "strict"), parse_constant=refuse)
    json.dumps(body, ensure_ascii=False).encode()
    level, deepest, is_string, is_escaped = 0, 0, False, False
    for byte in raw:
        if is_escaped:
            is_escaped = False
        elif is_string:
            is_escaped, is_string = byte == ord("\\"), byte != ord('"')
        elif byte == ord('"'):
            is_string = True
        elif byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"]}":
            level -= 1
    if deepest > 128:
        raise ValueError(f"{deepest} levels")
    return body


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
