"""Calls that are answered without the SDK are answered as the SDK does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import pytest_asyncio
from mcp_types import InputRequiredResult

from support.serving import headers, request
from toolrun import ToolError, ToolExecutor, tool
from toolrun.json_pieces import loads_in_pieces
from toolrun.mcp.server import client_message, fast_path
from toolrun.mcp.server.fast_path import App, FastPath
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.processes.framing import LARGE
from toolrun.trust.approvals import Approvals

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

    @executor.manager.add
    @tool(annotations={"destructiveHint": True})
    async def remove(path: str) -> str:
        """Needs approval."""
        return f"removed {path}"

    executor.approver = Approvals()
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


ASKING: Any = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


def removal(**params: Any) -> tuple[bytes, dict[str, str]]:
    """A call that needs approval."""
    message = request("tools/call", 7, name="remove", arguments={"path": "/x"}, **{"_meta": ASKING, **params})
    return json.dumps(message).encode(), headers("tools/call", "remove")


@pytest.mark.parametrize("can_ask", [True, False])
async def test_a_call_that_needs_approval_is_answered_as_the_sdk_does(apps: Apps, can_ask: bool) -> None:
    sent = removal() if can_ask else removal(_meta={})
    ours = await Wire(*sent).through(apps.ours)
    assert apps.passed_on == 0
    assert ours == await Wire(*sent).through(apps.sdk)
    result = ours[2]["result"]
    assert result["resultType"] == ("input_required" if can_ask else "complete")
    if can_ask:
        InputRequiredResult.model_validate(result, by_name=False)


@pytest.mark.parametrize("way", ["ours", "sdk"])
@pytest.mark.parametrize(
    ("content", "text"),
    [({"decision": "allow once"}, "removed /x"), ({"decision": "deny", "reason": "no"}, "not approved: no")],
)
async def test_an_answer_to_a_request_for_approval_may_go_either_way(
    apps: Apps, way: str, content: dict[str, str], text: str
) -> None:
    asked = (await Wire(*removal()).through(apps.ours))[2]["result"]
    responses = {"approval": {"action": "accept", "content": content}}
    retry = removal(inputResponses=responses, requestState=asked["requestState"])
    result = (await Wire(*retry).through(apps.ours if way == "ours" else apps.sdk))[2]["result"]
    assert text in result["content"][0]["text"]
    assert result["resultType"] == "complete"
    again = (await Wire(*retry).through(apps.ours))[2]["result"]
    assert again["resultType"] == "input_required"


@pytest.mark.parametrize("params", [{"inputResponses": [1]}, {"requestState": 5}])
async def test_an_answer_that_cannot_be_read_is_refused_by_the_sdk(apps: Apps, params: dict[str, Any]) -> None:
    status, _, answer = await Wire(*removal(**params)).through(apps.ours)
    assert (status, answer["error"]["code"], apps.passed_on) == (400, -32602, 1)


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


class Larger(Apps):
    """The same for large bodies, with a note of the size of what reaches the SDK."""

    def __init__(self, executor: ToolExecutor) -> None:
        super().__init__(executor)
        self.sizes: list[int] = []
        self.sdk = self.server.sdk.streamable_http_app(
            host="0.0.0.0",
            max_request_body_size=10 * LARGE,
            json_response=True,  # a stream of the SDK's leaves a task behind
        )
        self.ours = FastPath(self._note, self.server, "/mcp", 10 * LARGE)

    async def _note(self, scope: Any, receive: Any, send: Any) -> None:
        async def noting() -> Any:
            message = await receive()
            self.sizes.append(len(message.get("body", b"")))
            return message

        await super()._note(scope, noting, send)


@pytest_asyncio.fixture
async def larger(executor: ToolExecutor) -> AsyncIterator[Larger]:
    @executor.manager.add
    async def total(rows: list[int], note: str = "") -> str:
        """Add up."""
        return f"{sum(rows)}{note}"

    made = Larger(executor)
    running, is_over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with made.server.sdk.session_manager.run():
            running.set()
            await is_over.wait()

    task = asyncio.create_task(run())
    await running.wait()
    yield made
    is_over.set()
    await task


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which large text was read."""
    seen: list[int] = []

    def noting(data: bytes) -> Any:
        seen.append(threading.get_ident())
        return loads_in_pieces(data)

    monkeypatch.setattr(client_message, "loads_in_pieces", noting)
    return seen


ROWS = list(range(150_000))
TOTAL = f"{sum(ROWS)}!"


def is_elsewhere(threads: list[int]) -> bool:
    return len(threads) == 1 and threads != [threading.get_ident()]


async def test_a_large_plain_call_is_read_in_a_thread(larger: Larger, threads: list[int]) -> None:
    status, _, answer = await Wire(*call("total", rows=ROWS, note="!")).through(larger.ours)
    assert (status, answer["result"]["content"][0]["text"]) == (200, TOTAL)
    assert larger.passed_on == 0
    assert is_elsewhere(threads)


async def test_a_large_call_that_is_not_plain_reaches_the_sdk_without_its_arguments(
    larger: Larger, threads: list[int]
) -> None:
    body, head = call("total", rows=ROWS, note="!")
    message = json.loads(body)
    message["params"]["_meta"]["progressToken"] = 1
    status, _, answer = await Wire(json.dumps(message).encode(), head).through(larger.ours)
    assert (status, answer["result"]["content"][0]["text"]) == (200, TOTAL)
    assert larger.passed_on == 1
    assert max(larger.sizes) < 1000
    assert is_elsewhere(threads)


async def test_a_large_call_of_the_older_era_reaches_the_sdk_without_its_arguments(
    larger: Larger, threads: list[int]
) -> None:
    head = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}

    def wire(method: str, **parts: Any) -> Wire:
        return Wire(json.dumps({"jsonrpc": "2.0", "method": method, **parts}).encode(), head)

    greeting = wire("initialize", id=1, params=about)
    await greeting.through(larger.ours)
    head["mcp-session-id"] = dict(greeting.sent[0]["headers"])[b"mcp-session-id"].decode()
    await wire("notifications/initialized").through(larger.ours)
    arguments = {"rows": ROWS, "note": "!"}
    calling = wire("tools/call", id=2, params={"name": "total", "arguments": arguments})
    _, _, answer = await calling.through(larger.ours)
    assert answer["result"]["content"][0]["text"] == TOTAL
    assert max(larger.sizes) < 1000
    assert is_elsewhere(threads)


async def test_a_large_body_in_parts_is_put_together(larger: Larger) -> None:
    body, head = call("total", rows=ROWS, note="!")
    wire = Wire(b"", head)
    parts = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]

    async def receive() -> MutableMapping[str, Any]:
        if not parts:
            await wire.gone.wait()
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    wire.receive = receive  # type: ignore[method-assign]
    _, _, answer = await wire.through(larger.ours)
    assert answer["result"]["content"][0]["text"] == TOTAL
    assert larger.passed_on == 0


async def test_a_body_beyond_the_limit_goes_to_the_sdk_as_it_came(larger: Larger) -> None:
    wire = Wire(b"", GOOD_HEAD)
    sent = 0

    async def receive() -> MutableMapping[str, Any]:
        nonlocal sent
        sent += LARGE
        return {"type": "http.request", "body": b"1," * (LARGE // 2), "more_body": True}

    wire.receive = receive  # type: ignore[method-assign]
    assert (await wire.through(larger.ours))[0] == 413
    assert larger.passed_on == 1
    assert sent <= 12 * LARGE


async def test_a_client_that_leaves_in_the_middle_of_its_request_is_not_answered(larger: Larger) -> None:
    wire = Wire(b"", GOOD_HEAD)
    messages: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop(0)

    wire.receive = receive  # type: ignore[method-assign]
    await asyncio.wait_for(larger.ours(wire.scope, wire.receive, wire.send), LIMIT)
    assert (wire.sent, larger.passed_on) == ([], 0)


@pytest.mark.parametrize("body", [b"[" + b"1," * LARGE + b"1]", b'{"a":[' + b"1," * LARGE], ids=["batch", "cut"])
async def test_a_large_body_that_is_no_call_is_refused_without_the_sdk(larger: Larger, body: bytes) -> None:
    status, kind, answer = await Wire(body, GOOD_HEAD).through(larger.ours)
    assert (status, kind, answer["id"]) == (400, "application/json", None)
    assert answer["error"]["code"] in (-32600, -32700)
    assert larger.passed_on == 0


@pytest.mark.parametrize("is_modern", [True, False])
async def test_a_call_with_a_key_twice_is_refused(apps: Apps, is_modern: bool) -> None:
    body, head = call(a=1)
    body = body.replace(b'"a": 1', b'"a": 1, "a": 2')
    if not is_modern:
        head = {"accept": head["accept"], "content-type": "application/json"}
    status, kind, answer = await Wire(body, head).through(apps.ours)
    assert (status, kind, answer["id"]) == (400, "application/json", 7)
    assert answer["error"] == {
        "code": -32602,
        "message": "'a' is sent twice, with different values: send it once",
    }
    assert apps.passed_on == 0


async def test_two_requests_with_one_id_are_two_calls_each_with_its_answer(apps: Apps, executor: ToolExecutor) -> None:
    together = asyncio.Barrier(2)

    @executor.manager.add
    async def meet(a: int) -> int:
        """Wait for the other one."""
        await together.wait()
        return a

    wires = [Wire(*call("meet", a=number)) for number in (1, 2)]  # both have the id 7
    answers = await asyncio.gather(*(wire.through(apps.ours) for wire in wires))
    assert [(it["id"], it["result"]["content"][0]["text"]) for _, _, it in answers] == [(7, "1"), (7, "2")]
    assert apps.passed_on == 0
