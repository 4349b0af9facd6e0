"""Calls that are answered without the SDK are answered as the SDK does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import pytest_asyncio

from support.serving import headers, request
from toolrun import ToolError, ToolExecutor, tool
from toolrun.mcp.server import fast_path
from toolrun.mcp.server.fast_path import App, FastPath
from toolrun.mcp.server.mcp_server import McpServer

LIMIT = 30.0
MAX_BODY = 1000


class Wire:
    """One request as a web server hands it over."""

    def __init__(self, body: bytes, head: dict[str, str]) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self.gone = asyncio.Event()
        self._body: list[bytes] = [body]
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in head.items()],
        }

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    async def through(self, app: App) -> tuple[int, str, Any]:
        """Status, content type and the JSON of the answer."""
        await asyncio.wait_for(app(self.scope, self.receive, self.send), LIMIT)
        start, *rest = self.sent
        kind = dict(start["headers"]).get(b"content-type", b"").decode()
        body = b"".join(message.get("body", b"") for message in rest)
        return start["status"], kind, json.loads(body) if body.startswith(b"{") else body


class Apps:
    """Ours, and the SDK's behind it, with a note of which requests reach that one."""

    def __init__(self, executor: ToolExecutor) -> None:
        self.server = McpServer(executor.manager, executor)
        self.sdk: App = self.server.sdk.streamable_http_app(host="0.0.0.0", max_request_body_size=MAX_BODY)
        self.passed_on = 0
        self.ours = FastPath(self._note, self.server, "/mcp", MAX_BODY)

    async def _note(self, scope: Any, receive: Any, send: Any) -> None:
        self.passed_on += 1
        await self.sdk(scope, receive, send)


@pytest_asyncio.fixture
async def apps(executor: ToolExecutor) -> AsyncIterator[Apps]:
    @executor.manager.add
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @executor.manager.add
    async def fail() -> None:
        """Fails."""
        raise ToolError("it failed")

    executor.manager.add(tool(name="slow")(_slow))
    made = Apps(executor)
    is_up, is_over = asyncio.Event(), asyncio.Event()

    async def run() -> None:  # a task enters and leaves it, and a fixture is none
        async with made.server.sdk.session_manager.run():
            is_up.set()
            await is_over.wait()

    running = asyncio.create_task(run())
    await is_up.wait()
    yield made
    is_over.set()
    await running


async def _slow() -> str:
    """Suspends."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "done"


def call(name: str = "add", **arguments: Any) -> tuple[bytes, dict[str, str]]:
    return json.dumps(request("tools/call", 7, name=name, arguments=arguments)).encode(), headers("tools/call", name)


CALLS = {
    "good": call(a=1),
    "repaired": call(a="1"),
    "refused": call(b=1),
    "failed": call("fail"),
    "slow": call("slow"),
    "a large number": call(a=10**20),
    "unknown": call("nobody"),
    "without arguments": (
        json.dumps(request("tools/call", 7, name="fail")).encode(),
        headers("tools/call", "fail"),
    ),
    "text as id": (
        json.dumps(request("tools/call", name="add", arguments={"a": 1}) | {"id": "x"}).encode(),
        headers("tools/call", "add"),
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_plain_call_is_answered_as_the_sdk_does(name: str, apps: Apps) -> None:
    body, head = CALLS[name]
    ours = await Wire(body, head).through(apps.ours)
    assert apps.passed_on == 0
    assert ours == await Wire(body, head).through(apps.sdk)


def _changed(**parts: Any) -> bytes:
    message = request("tools/call", 7, name="add", arguments={"a": 1})
    message["params"] |= parts.pop("params", {})
    return json.dumps(message | parts).encode()


GOOD_HEAD = headers("tools/call", "add")
OTHERS = {
    "no JSON": (b"rubbish", GOOD_HEAD),
    "NaN": (_changed(params={"arguments": {"a": float("nan")}}), GOOD_HEAD),
    "a batch": (b"[" + _changed() + b"]", GOOD_HEAD),
    "another version": (_changed(jsonrpc="1.0"), GOOD_HEAD),
    "no id": (json.dumps({"jsonrpc": "2.0", "method": "tools/call"}).encode(), GOOD_HEAD),
    "true as id": (_changed(id=True), GOOD_HEAD),
    "another method": (_changed(method="tools/list"), GOOD_HEAD),
    "another name": (_changed(params={"name": "fail"}), GOOD_HEAD),
    "a list of arguments": (_changed(params={"arguments": [1]}), GOOD_HEAD),
    "no name": (_changed(params={"name": None}), GOOD_HEAD),
    "no envelope": (_changed(params={"_meta": {}}), GOOD_HEAD),
    "an unknown version": (_changed(), GOOD_HEAD | {"mcp-protocol-version": "2099-01-01"}),
    "no version": (_changed(), {name: value for name, value in GOOD_HEAD.items() if name != "mcp-protocol-version"}),
    "no JSON accepted": (_changed(), GOOD_HEAD | {"accept": "text/event-stream"}),
    "too large": (_changed(), GOOD_HEAD | {"content-length": "1000000"}),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_anything_else_goes_to_the_sdk(name: str, apps: Apps) -> None:
    body, head = OTHERS[name]
    ours = await Wire(body, head).through(apps.ours)
    assert apps.passed_on == 1
    assert ours == await Wire(body, head).through(apps.sdk)


async def test_a_header_twice_goes_to_the_sdk(apps: Apps) -> None:
    wire = Wire(_changed(), GOOD_HEAD)
    wire.scope["headers"].append((b"mcp-name", b"add"))
    assert (await wire.through(apps.ours))[0] == 400
    assert apps.passed_on == 1


async def test_a_client_that_goes_away_cancels_its_call(
    apps: Apps, executor: ToolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "_SOON", 0.0)
    started, ended = asyncio.Event(), asyncio.Event()

    @executor.manager.add
    async def endless() -> None:
        """Waits."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    apps.server.tools.clear()  # as it does itself while it announces
    wire = Wire(*call("endless"))
    running = asyncio.create_task(apps.ours(wire.scope, wire.receive, wire.send))
    await asyncio.wait_for(started.wait(), LIMIT)
    wire.gone.set()
    await asyncio.wait_for(running, LIMIT)
    await asyncio.wait_for(ended.wait(), LIMIT)
    assert wire.sent == []
    assert apps.passed_on == 0


async def test_a_client_that_waits_long_gets_signs_of_life(
    apps: Apps, executor: ToolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "_SOON", 0.0)
    monkeypatch.setattr(fast_path, "_SIGN_OF_LIFE", 0.001)
    goes_on = asyncio.Event()

    @executor.manager.add
    async def patient() -> str:
        """Waits."""
        await goes_on.wait()
        return "done"

    apps.server.tools.clear()
    wire = Wire(*call("patient"))
    running = asyncio.create_task(apps.ours(wire.scope, wire.receive, wire.send))
    async with asyncio.timeout(LIMIT):
        while len(wire.sent) < 3:  # noqa: ASYNC110  the wire has no event for it
            await asyncio.sleep(0.001)
    goes_on.set()
    await asyncio.wait_for(running, LIMIT)
    start, *signs, last = wire.sent
    assert dict(start["headers"])[b"content-type"] == b"text/event-stream"
    assert {sign["body"] for sign in signs} == {b": ping\r\n\r\n"}
    event = last["body"].decode()
    assert event.startswith("event: message\r\ndata: {")
    assert json.loads(event.split("data: ")[1])["result"]["content"][0]["text"] == "done"
