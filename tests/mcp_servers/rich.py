"""An MCP server over stdio that uses every field of the protocol's tools, results and resources. Standard library only.

The argument is the era that it speaks: `legacy` (default) or `modern`. Each tool has one answer, which is in `RESULTS`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ERA = sys.argv[1] if len(sys.argv) > 1 else "legacy"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "text", "text": "hello", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"x/y": [1]}}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png", "_meta": {"width": 1}}
LINK = {
    "type": "resource_link",
    "uri": "note:///1",
    "name": "first",
    "title": "The first",
    "description": "A note.",
    "mimeType": "text/plain",
    "size": 5,
    "icons": [{"src": "data:image/png;base64," + PIXEL}],
    "annotations": {"priority": 1},
    "_meta": {"kept": True},
}
NOTES: dict[str, dict[str, Any]] = {
    "note:///1": {"uri": "note:///1", "mimeType": "text/plain", "text": "first", "_meta": {"a": 1}},
    "note:///2": {"uri": "note:///2", "mimeType": "image/png", "blob": PIXEL},
    "note:///listed": {"uri": "note:///listed", "text": "listed"},
    "ui://chart": {"uri": "ui://chart", "mimeType": "text/html", "text": "<p>chart</p>"},
    "note:///large": {"uri": "note:///large", "text": "x" * 1_500_000},
}
RESULTS: dict[str, dict[str, Any]] = {
    "text": {"content": [TEXT], "_meta": {"trace": "t-1", "nested": {"deep": [None, 1.5]}}},
    "structured": {"content": [TEXT], "structuredContent": {"total": 3, "none": None, "big": 2**70}},
    "structured_alone": {"content": [], "structuredContent": {"total": 3}},
    "empty": {"content": []},
    "media": {
        "content": [
            IMAGE,
            {"type": "audio", "data": PIXEL, "mimeType": "audio/wav", "annotations": {"priority": 0}},
            {"type": "resource", "resource": NOTES["note:///2"], "annotations": {"priority": 1}},
            LINK,
        ]
    },
    "failed": {
        "content": [TEXT, IMAGE],
        "structuredContent": {"code": 7, "why": ["a", "b"]},
        "isError": True,
        "_meta": {"retry": False},
    },
    "failed_bare": {"content": [{"type": "text", "text": "no"}], "isError": True},
    "odd_blocks": {
        "content": [
            {"type": "hologram", "data": {"x": [1]}},
            {"type": "image", "data": "not base64!", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:y"}},
            TEXT,
        ]
    },
    "odd_failure": {"content": [{"type": "hologram"}], "isError": True},
    "broken_promise": {"content": [TEXT], "structuredContent": {"total": "three"}},
    "long": {"content": [{"type": "text", "text": "long " * 100_000}], "structuredContent": {"rows": ["y" * 300_000]}},
    "long_failure": {"content": [{"type": "text", "text": "bad " * 100_000}], "isError": True},
}
if ERA == "modern":
    RESULTS["listing"] = {"content": [TEXT], "structuredContent": [1, {"a": 2}]}
    RESULTS["word"] = {"content": [TEXT], "structuredContent": "a word"}
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}} for name in RESULTS
]
TOOLS[0] |= {
    "title": "A text",
    "annotations": {"readOnlyHint": True, "title": "Another title", "x-own": 1},
    "icons": [{"src": "https://icons.example/a.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    "_meta": {"ui": {"resourceUri": "ui://chart"}, "vendor/key": [1, None]},
}
TOOLS[1] |= {
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer", "title": "A"}}, "$comment": "kept"},
    "outputSchema": {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]},
    "annotations": {},
    "icons": [],
    "_meta": {},
    "execution": {"taskSupport": "optional"},
    "x-vendor": {"deep": [None]},
}
for tool in TOOLS:
    if tool["name"] == "broken_promise":
        tool["outputSchema"] = TOOLS[1]["outputSchema"]
    if tool["name"] == "empty":
        tool["title"] = tool.pop("description")
    if tool["name"] == "media":
        del tool["description"]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "failed_bare" and params.get("arguments", {}).get("raise"):
        raise ValueError("no room")
    if method == "tools/call":
        return RESULTS[params["name"]]
    if method == "resources/list":  # one on each page
        listed = [
            {"uri": "note:///listed", "name": "listed", "size": 6, "_meta": {"l": 1}},
            {"uri": "x:/", "name": "x"},
        ]
        return {"resources": [listed[1]]} if params.get("cursor") else {"resources": [listed[0]], "nextCursor": "more"}
    if method == "resources/read":
        if params["uri"] not in NOTES:
            raise LookupError(params["uri"])
        return {"contents": [NOTES[params["uri"]]], "_meta": {"read": 1}}
    capabilities: dict[str, Any] = {"tools": {}, "resources": {}}
    if method == "initialize" and ERA == "legacy":
        info = {"name": "rich", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "server/discover" and ERA == "modern":
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
    raise KeyError(method)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            said["result"] = answer(message["method"], message.get("params") or {})
            if ERA == "modern":
                said["result"] = {**said["result"], "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
        except KeyError as error:
            said["error"] = {"code": -32601, "message": f"Method not found: {error}"}
        except ValueError as error:
            said["error"] = {"code": -32050, "message": str(error), "data": {"rooms": [1, None]}}
        except LookupError as error:
            said["error"] = {"code": -32002, "message": "Resource not found", "data": {"uri": str(error)}}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
