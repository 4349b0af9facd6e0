"""An MCP server over stdio with templates of resources, and resources that can be subscribed to. Standard library only.

Arguments: the era that it speaks, `legacy` (default) or `modern`, and a name, which is in what it says. The tool
`touch` announces the update of a resource, and answers how many subscriptions there are. `received` in its directory
has the methods that it was asked for.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ERA = sys.argv[1] if len(sys.argv) > 1 else "legacy"
OWNER = sys.argv[2] if len(sys.argv) > 2 else "notes"
SUBSCRIBED: list[str] = []
LISTENERS: dict[Any, list[str]] = {}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"uri": {"type": "string"}}}}
    for name in ("touch", "die")
]
TEMPLATES = [
    {"uriTemplate": "note:///{name}", "name": "notes", "mimeType": "text/plain", "_meta": {"of": OWNER}},
    {"uriTemplate": "note:///{+broken", "name": "broken"},
    {"uriTemplate": f"{OWNER}://{{+path}}", "name": "own"},
]


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def touch(uri: str) -> dict[str, Any]:
    method = "notifications/resources/updated"
    for number, uris in LISTENERS.items():
        if uri in uris:
            say({"method": method, "params": {"uri": uri, "_meta": {"io.modelcontextprotocol/subscriptionId": number}}})
    if ERA == "legacy" and any(uri.startswith(it) for it in SUBSCRIBED):
        say({"method": method, "params": {"uri": uri}})
    count = len(SUBSCRIBED) + sum(len(uris) for uris in LISTENERS.values())
    return {"content": [{"type": "text", "text": str(count)}]}


def resource(method: str, uri: str) -> dict[str, Any]:
    if "secret" in uri:
        raise LookupError(uri)
    if method == "resources/read":
        return {"contents": [{"uri": uri, "text": f"{uri} of {OWNER}"}]}
    if method == "resources/subscribe":
        SUBSCRIBED.append(uri)
    else:
        SUBSCRIBED.remove(uri)
    return {}


def answer(number: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    capabilities: dict[str, Any] = {"tools": {}, "resources": {"subscribe": True}}
    if method == "initialize" and ERA == "legacy":
        info = {"name": OWNER, "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "server/discover" and ERA == "modern":
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
    if method == "subscriptions/listen" and ERA == "modern":
        LISTENERS[number] = params["notifications"].get("resourceSubscriptions", [])
        return None
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        if params["name"] == "die":
            os._exit(1)
        return touch(params["arguments"]["uri"])
    if method == "resources/list":
        return {"resources": [{"uri": "note:///both", "name": OWNER}, {"uri": f"note:///{OWNER}", "name": "own"}]}
    if method == "resources/templates/list":  # one on each page
        page = int(params.get("cursor", 0))
        more = {"nextCursor": str(page + 1)} if page + 1 < len(TEMPLATES) else {}
        return {"resourceTemplates": [TEMPLATES[page]], **more}
    if method == "resources/read" or (method in ("resources/subscribe", "resources/unsubscribe") and ERA == "legacy"):
        return resource(method, params["uri"])
    raise KeyError(method)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        with Path("received").open("a") as file:
            file.write(f"{message.get('method')}\n")
        if message.get("method") == "notifications/cancelled":
            LISTENERS.pop(message["params"]["requestId"], None)
        if "id" not in message or "method" not in message:
            continue
        said: dict[str, Any] = {"id": message["id"]}
        try:
            result = answer(message["id"], message["method"], message.get("params") or {})
            if result is None:
                continue
            said["result"] = {**result, "resultType": "complete"} if ERA == "modern" else result
        except KeyError as error:
            said["error"] = {"code": -32601, "message": f"Method not found: {error}"}
        except LookupError as error:
            said["error"] = {"code": -32002, "message": "Resource not found", "data": {"uri": str(error)}}
        say(said)


if __name__ == "__main__":
    main()
