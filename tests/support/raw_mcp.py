"""MCP as raw JSON: requests to a server over stdio or HTTP, and the answers as they come."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from support.console import LIMIT, TOOLRUN, environment
from support.serving import headers, line, request, served

STAMP = "io.modelcontextprotocol/serverInfo"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
Ask = Callable[..., dict[str, Any]]
"""Sends a method with its parameters, and gives the whole answer."""


@contextmanager
def on_stdio(command: list[str], cwd: Path, era: str) -> Iterator[Ask]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=cwd, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(method: str, **params: Any) -> dict[str, Any]:
            message = request(method, 1, **params)
            if era == "legacy":
                message["params"] = params
            stdin.write(line(message))
            stdin.flush()
            found: dict[str, Any] = {}
            while not {"result", "error"} & found.keys():  # a notification, or a question of the server
                found = json.loads(stdout.readline())
            return found

        try:
            if era == "legacy":
                ask("initialize", **HELLO)
                stdin.write(line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            yield ask
        finally:
            process.kill()


@contextmanager
def on_http(cwd: Path, era: str) -> Iterator[Ask]:
    own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with served(cwd=cwd) as server, httpx2.Client(timeout=LIMIT) as http:

        def post(message: dict[str, Any], more: dict[str, str]) -> httpx2.Response:
            return http.post(server.url, json=message, headers=more)

        def ask(method: str, head: dict[str, str] | None = None, **params: Any) -> dict[str, Any]:
            """`head`: more headers."""
            message = request(method, 1, **params)
            if era == "legacy":
                message["params"] = params
                answer = post(message, own | (head or {}))
            else:
                answer = post(message, headers(method, params.get("name", params.get("uri", ""))) | (head or {}))
            data = [it for it in answer.text.splitlines() if it.startswith("data: {")]
            found: dict[str, Any] = json.loads(data[-1].removeprefix("data: ") if data else answer.text)
            return found

        if era == "legacy":
            greeting = post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}, own)
            own |= {"mcp-session-id": greeting.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            post({"jsonrpc": "2.0", "method": "notifications/initialized"}, own)
        yield ask


@contextmanager
def gateway(transport: str, root: Path, era: str) -> Iterator[Ask]:
    opened = on_stdio([str(TOOLRUN), "serve"], root, era) if transport == "stdio" else on_http(root, era)
    with opened as ask:
        yield ask


def said(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what each server says for itself: who it is, and how long it may be cached."""
    if "error" in answer:
        return {"error": answer["error"]}
    result = {key: value for key, value in answer["result"].items() if key not in ("resultType", "ttlMs", "cacheScope")}
    meta = {key: value for key, value in result.pop("_meta", {}).items() if key != STAMP}
    if "content" in result:
        result.setdefault("isError", False)
    return {**result, "_meta": meta} if meta else result
