"""An MCP server over stdio that does what a test tells it to, with the standard library only.

Started in a directory of its own, in which it keeps: `received`, every line that it got; `starts`, its process numbers;
`at_start.py`, what it runs before it says anything; `tools.json`, what else it lists. The argument is the era that it
speaks: `legacy` (default) or `modern`.

`run(code)` runs code in the main thread, so nothing else is answered meanwhile; `wait_for(path, value)` waits in a
thread of its own until a file is there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path.cwd()
ERA = sys.argv[1] if len(sys.argv) > 1 else "legacy"
MODERN = "2026-07-28"
LOCK = threading.Lock()
LISTENERS: list[Any] = []

TOOLS: list[dict[str, Any]] = [
    {
        "name": "run",
        "description": "Run some code. What it calls `answer` is the answer.",
        "inputSchema": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "data": {"type": "string"}},
            "required": ["code"],
        },
    },
    {
        "name": "wait_for",
        "description": "Wait until a file is there.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "value": {"type": "string"}},
            "required": ["path", "value"],
        },
    },
]


def write(data: bytes) -> None:
    with LOCK:
        while data:
            data = data[os.write(1, data[: 1 << 20]) :]


def say(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def changed() -> None:
    """Tell that the tools have changed, as the era wants it."""
    if ERA == "legacy":
        say({"method": "notifications/tools/list_changed"})
    for listener in LISTENERS:
        meta = {"io.modelcontextprotocol/subscriptionId": listener}
        say({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})


def text(value: object) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": str(value)}]}
    return {**result, "resultType": "complete"} if ERA == "modern" else result


def progress(params: dict[str, Any], done: float) -> None:
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        said = {"progressToken": token, "progress": done, "total": 2, "message": "on the way"}
        say({"method": "notifications/progress", "params": said})


def run(number: Any, params: dict[str, Any], code: str, data: str = "") -> None:
    scope: dict[str, Any] = {"os": os, "sys": sys, "time": time, "json": json, "Path": Path, "TOOLS": TOOLS}
    scope |= {"write": write, "say": say, "changed": changed, "number": number, "data": data, "text": text}
    scope |= {"progress": lambda done: progress(params, done), "answer": os.getpid()}
    exec(code, scope)
    if scope["answer"] is not None:
        say({"id": number, "result": text(scope["answer"])})


def wait_for(number: Any, params: dict[str, Any], path: str, value: str) -> None:
    progress(params, 1)
    while not Path(path).exists():
        time.sleep(0.005)
    say({"id": number, "result": text(value)})


def call(number: Any, params: dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments", {})
    if name == "run":
        run(number, params, **arguments)
    elif name == "wait_for":
        threading.Thread(target=wait_for, args=(number, params), kwargs=arguments, daemon=True).start()
    else:
        say({"id": number, "result": text(f"{name} {json.dumps(arguments)}")})


def listed() -> list[Any]:
    more = HERE / "tools.json"
    return TOOLS + (json.loads(more.read_text()) if more.exists() else [])


def answer(message: dict[str, Any]) -> None:
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None or method is None:
        return
    capabilities = {"tools": {"listChanged": True}}
    complete = {"resultType": "complete"} if ERA == "modern" else {}
    if method == "tools/call":
        call(number, params)
    elif method == "tools/list":
        say({"id": number, "result": {"tools": listed(), **complete}})
    elif method == "initialize" and ERA == "legacy":
        info = {"name": "puppet", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
        say({"id": number, "result": result})
    elif method == "ping" and ERA == "legacy":
        say({"id": number, "result": {}})
    elif method == "server/discover" and ERA == "modern":
        result = {"supportedVersions": [MODERN], "capabilities": capabilities, **complete}
        say({"id": number, "result": {**result, "ttlMs": 0, "cacheScope": "private"}})
    elif method == "subscriptions/listen" and ERA == "modern":
        LISTENERS.append(number)
        meta = {"io.modelcontextprotocol/subscriptionId": number}
        acknowledged = {"notifications": params["notifications"], "_meta": meta}
        say({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
    else:
        say({"id": number, "error": {"code": -32601, "message": f"Method not found: {method}"}})


def main() -> None:
    with (HERE / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if (HERE / "at_start.py").exists():
        exec((HERE / "at_start.py").read_text(), globals())
    for line in sys.stdin.buffer:
        with (HERE / "received").open("ab") as file:
            file.write(line)
        answer(json.loads(line))


main()
