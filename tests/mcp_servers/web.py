"""An MCP server over HTTP that does what a test tells it to, with the standard library only. Older era.

Streamable HTTP at /mcp, the older SSE at /sse. Arguments: the port (0 for any), and how it answers for a session that
it does not know: 404, 400, or 0 for not at all. It prints its port. In the directory it is started in it keeps
`received`, every message that it got.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT, UNKNOWN = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 404
SESSIONS: set[str] = set()
REFUSALS: list[int] = []
"""The status with which further calls are answered, instead of an answer."""
NO_PING: list[int] = []
"""The status with which pings are answered, if there is one: the server has none."""
STREAMS: dict[str, queue.SimpleQueue[dict[str, Any] | None]] = {}
NUMBERS = itertools.count(1)
PARAMETERS = {"code": {"type": "string"}}
TOOLS: list[Any] = [
    {
        "name": "do",
        "description": "Run some code. What it calls `answer` is the answer.",
        "inputSchema": {"type": "object", "properties": PARAMETERS, "required": ["code"]},
    }
]


def changed() -> None:
    for stream in STREAMS.values():
        stream.put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note = {**message, "headers": {name.lower(): value for name, value in self.headers.items()}}
        with Path("received").open("a") as file:
            file.write(json.dumps(note) + "\n")
        if REFUSALS and message.get("method") == "tools/call":
            self.give(REFUSALS.pop(0), b"no", "text/plain")
            return
        if NO_PING and message.get("method") == "ping":
            self.give(NO_PING[0], b"Bad Request", "text/plain")
            return
        if self.path.startswith("/message"):
            self.give(202, b"", "text/plain")
            # In a thread: the next request comes over the same connection.
            threading.Thread(target=self.answer_later, args=(message, self.path.partition("=")[2]), daemon=True).start()
            return
        known = self.headers.get("mcp-session-id") in SESSIONS
        if message.get("method") != "initialize" and not known:
            if UNKNOWN == 0:
                threading.Event().wait()
            fault = {"code": -32600 if UNKNOWN == 404 else -32000, "message": "Session not found"}
            self.give_json(UNKNOWN, {"jsonrpc": "2.0", "id": None, "error": fault})
        elif (answer := self.answer(message)) is None:
            if not self.wfile.closed and "id" not in message:
                self.give(202, b"", "text/plain")
        elif message.get("method") == "initialize":
            session = f"session-{os.getpid()}-{next(NUMBERS)}"
            SESSIONS.add(session)
            self.give_json(200, answer, {"mcp-session-id": session})
        else:
            self.give_json(200, answer)

    def answer_later(self, message: dict[str, Any], name: str) -> None:
        stream = STREAMS.get(name)
        if stream is not None and (answer := self.answer(message)) is not None:
            stream.put(answer)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        name = f"stream-{next(NUMBERS)}"
        stream = STREAMS[name] = queue.SimpleQueue()
        if self.path == "/sse":
            self.event("endpoint", f"/message?stream={name}")
        try:
            while (message := stream.get()) is not None:
                self.event("message", json.dumps(message))
        except OSError:
            STREAMS.pop(name, None)
        self.close_connection = True

    def do_DELETE(self) -> None:
        SESSIONS.discard(self.headers.get("mcp-session-id", ""))
        self.give(200, b"", "text/plain")

    def event(self, kind: str, data: str) -> None:
        self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def give_json(self, status: int, answer: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self.give(status, json.dumps(answer).encode(), "application/json", headers)

    def give(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None if there is none, or it has been given."""
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            return None
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "web", "version": "1"}}
            result["capabilities"] = {"tools": {"listChanged": True}}
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call" and params["name"] == "do":
            scope = {"os": os, "time": time, "Path": Path, "threading": threading, "changed": changed, "TOOLS": TOOLS}
            scope |= {
                "give": self.give,
                "connection": self.connection,
                "REFUSALS": REFUSALS,
                "NO_PING": NO_PING,
                "SESSIONS": SESSIONS,
                "STREAMS": STREAMS,
                "answer": os.getpid(),
                "number": message["id"],
            }
            exec(params["arguments"]["code"], scope)
            if scope["answer"] is None:
                return None
            result = text(scope["answer"])
        elif method != "ping":
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


with Server(("127.0.0.1", PORT), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
