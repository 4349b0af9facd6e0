"""What the MCP servers of the crash trials answer, over stdio or HTTP. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from crashes.outside import Outside

TOOLS = [
    {
        "name": "post",
        "description": "Post something.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    {
        "name": "was_posted",
        "description": "Find out whether something was posted.",
        "inputSchema": {
            "type": "object",
            "properties": {"key": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["key", "arguments"],
        },
        "annotations": {"readOnlyHint": True},
    },
]


def answer(message: dict[str, Any], outside: Outside, promise: str, host: Callable[[], int]) -> dict[str, Any]:
    """The answer to a request. `host` tells which process to kill, if the call is doomed so."""
    result = _result(message["method"], message.get("params"), outside, promise, host)
    error = {"error": {"code": -32601, "message": "unknown"}}
    return {"jsonrpc": "2.0", "id": message["id"], **(error if result is None else {"result": result})}


def _result(method: str, params: Any, outside: Outside, promise: str, host: Callable[[], int]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "post office", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        arguments = params["arguments"]
        if params["name"] == "was_posted":
            has_acted = outside.has_acted(arguments["arguments"]["name"])
            return _say(json.dumps({"verdict": "done" if has_acted else "not_done", "result": "posted"}))
        outside.act(arguments["name"], arguments["name"], promise, host())
        return _say("posted")
    return {} if method == "ping" else None


def _say(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}
