"""Large messages over MCP for `freeze.py`: servers whose answers are large, and clients that send us large requests.

usage: freeze_mcp.py stdio | http    serves on its pipes, or on a free port, which it prints
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from toolrun import Runtime

ANSWERED: dict[str, Callable[[], Any]] = {
    "text of 15 MB": lambda: {"content": [{"type": "text", "text": "x" * 15_000_000}]},
    "image of 15 MB": lambda: {"content": [{"type": "image", "data": "AAAA" * 3_750_000, "mimeType": "image/png"}]},
    "400,000 records": lambda: {
        "content": [],
        "structuredContent": {"rows": [{"n": n, "text": "a, b"} for n in range(400_000)]},
    },
    "an error of 15 MB": lambda: {"content": [{"type": "text", "text": "x" * 15_000_000}], "isError": True},
}
PROMISED: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "promise_rows": (
        {"type": "array", "items": {"type": "object", "properties": {f"c{n}": {"type": "integer"} for n in range(20)}}},
        lambda: [{f"c{column}": 1 for column in range(20)} for _ in range(1_000)],
    ),
    "promise_options": (
        {"type": "array", "items": {"enum": [{"n": n} for n in range(200)]}},
        lambda: [{"n": 199}] * 400,
    ),
    "promise_too_much": (
        {"type": "array", "items": {"enum": [{"n": n} for n in range(200)]}},
        lambda: [{"n": 199}] * 20_000,
    ),
}
"""Tools with an output schema for their list, and what they answer."""
ABOUT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
}


def answered(kind: str) -> Any:
    return ANSWERED[kind]()


def promised(name: str) -> Any:
    return {"content": [], "structuredContent": {"x": PROMISED[name][1]()}}


def answer(message: dict[str, Any], name: str) -> bytes:
    """What a server with the tool of that name says, as JSON text."""
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            found["result"] = ABOUT
        case "tools/list":
            schema = {"type": "object", "properties": {"kind": {"type": "string"}, "items": {"type": "array"}}}
            found["result"] = {"tools": [{"name": name, "description": "Answer.", "inputSchema": schema}]}
            if name == "answer":
                found["result"]["tools"] += [
                    {
                        "name": it,
                        "description": "Answer.",
                        "inputSchema": {"type": "object"},
                        "outputSchema": {"type": "object", "properties": {"x": promise}},
                    }
                    for it, (promise, _) in PROMISED.items()
                ]
        case "tools/call" if message["params"]["name"] in PROMISED:
            found["result"] = promised(message["params"]["name"])
        case "tools/call" if "items" in message["params"]["arguments"]:
            found["result"] = {"content": [{"type": "text", "text": str(len(message["params"]["arguments"]["items"]))}]}
        case "tools/call":
            found["result"] = answered(message["params"]["arguments"]["kind"])
        case _:
            found["error"] = {"code": -32601, "message": "no"}
    return json.dumps(found).encode()


def serve_stdio() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print(answer(message, "answer").decode(), flush=True)


class Handler(BaseHTTPRequestHandler):
    """`/json` answers with JSON, `/events` with a stream of events, `/refusal` refuses calls."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        kind = self.path.strip("/")
        body = answer(message, f"answer_{kind}") if "id" in message else b""
        if body and kind == "events":
            body = b"event: message\ndata: " + body + b"\n\n"
        is_refused = kind == "refusal" and message["method"] == "tools/call"
        self.send_response(401 if is_refused else 200 if body else 202)
        self.send_header("content-type", "text/event-stream" if kind == "events" else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def serve_http() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


@contextmanager
def servers() -> Iterator[dict[str, dict[str, Any]]]:
    """The configuration of servers with the tools `answer`, `answer_json`, `answer_events` and `answer_refusal`."""
    path = str(Path(__file__).resolve())
    with subprocess.Popen([sys.executable, path, "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            yield {
                "large": {"command": sys.executable, "args": [path, "stdio"]},
                "json": {"url": f"{url}/json"},
                "events": {"url": f"{url}/events"},
                "refusal": {"url": f"{url}/refusal"},
            }
        finally:
            process.kill()


Prepare = Callable[[dict[str, Any]], Callable[[], str]]
"""Makes what sends a call to us and returns what kind of answer came. Sending blocks: it is for a thread."""


@asynccontextmanager
async def serving(runtime: Runtime) -> AsyncIterator[dict[str, Prepare]]:
    """Ways to send a call to toolrun as a server, in this process."""
    from toolrun.mcp.server.http_address import listen, read_address
    from toolrun.mcp.server.http_server import serve_http
    from toolrun.mcp.server.mcp_server import McpServer
    from toolrun.mcp.server.stdio_server import serve_stdio

    address = read_address("0", "", (), ())
    (incoming, client_out), (client_in, outgoing) = os.pipe(), os.pipe()
    http_server, stdio_server = (McpServer(runtime.manager, runtime.executor) for _ in range(2))
    with listen(address) as listening:
        tasks = [
            asyncio.create_task(serve_http(http_server, address, listening)),
            asyncio.create_task(serve_stdio(stdio_server.sdk, incoming, outgoing)),
        ]
        port = listening.getsockname()[1]
        await asyncio.to_thread(_shake_hands, client_in, client_out)
        yield {
            "HTTP": partial(_post, port, META),
            "HTTP, through the SDK": partial(_post, port, {**META, "progressToken": 1}),
            "stdio": partial(_write, client_in, client_out),
        }
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for descriptor in (incoming, outgoing, client_in, client_out):
        os.close(descriptor)


def _post(port: int, meta: dict[str, Any], call: dict[str, Any]) -> Callable[[], str]:
    params = {**call, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": call["name"],
    }

    def send() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.request("POST", "/mcp", body, headers)
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return _outcome(text.partition("data: ")[2] if text.startswith(("event", "data")) else text)

    return send


def _shake_hands(incoming: int, outgoing: int) -> None:
    params = {**ABOUT, "clientInfo": {"name": "c", "version": "1"}}
    _exchange(incoming, outgoing, _line({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    os.write(outgoing, _line({"jsonrpc": "2.0", "method": "notifications/initialized"}))


def _write(incoming: int, outgoing: int, call: dict[str, Any]) -> Callable[[], str]:
    data = _line({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    return lambda: _outcome(_exchange(incoming, outgoing, data))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _exchange(incoming: int, outgoing: int, data: bytes) -> str:
    written = 0
    while written < len(data):
        written += os.write(outgoing, data[written : written + 1_000_000])
    text = b""
    while not text.endswith(b"\n"):
        text += os.read(incoming, 1_000_000)
    return text.decode()


def _outcome(text: str) -> str:
    message = json.loads(text)
    if "error" in message:
        return str(message["error"]["message"])[:40]
    return str(message["result"].get("_meta", {}).get("toolrun/errorKind", "ok"))


if __name__ == "__main__":
    {"stdio": serve_stdio, "http": serve_http}[sys.argv[1]]()
