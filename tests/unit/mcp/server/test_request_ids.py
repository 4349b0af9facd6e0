"""Requests with one id at the same time: over HTTP each is answered on its own stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import pytest_asyncio

from toolrun import ToolExecutor
from toolrun.mcp.server.fast_path import FastPath
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.mcp.server.request_ids import RequestIds
from toolrun.processes.framing import LARGE

LIMIT = 30.0
VERSION = "2025-06-18"


class Post:
    """One request of a client, which can go away."""

    def __init__(self, message: dict[str, Any], session: str | None = None) -> None:
        self.body = bytearray()
        self.start: MutableMapping[str, Any] = {}
        self.has_gone = asyncio.Event()
        self._parts = [json.dumps({"jsonrpc": "2.0", **message}).encode()]
        head = {
            "host": "localhost",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
        }
        if session is not None:
            head["mcp-session-id"] = session
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in head.items()],
        }

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._parts:
            return {"type": "http.request", "body": self._parts.pop(), "more_body": False}
        await self.has_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.start = message
        self.body += message.get("body", b"")

    async def through(self, app: FastPath) -> Any:
        """The message that it is answered with."""
        await asyncio.wait_for(app(self._scope, self._receive, self._send), LIMIT)
        lines = [it for it in self.body.splitlines() if it.startswith(b"data: ")]
        return json.loads(lines[-1].removeprefix(b"data: ")) if lines else None


class Session:
    """A client of the handshake era, and the calls that it has sent."""

    def __init__(self, app: FastPath, id: str, gates: dict[str, asyncio.Event], begun: asyncio.Queue[str]) -> None:
        self._app = app
        self._id = id
        self.gates = gates
        self.begun = begun
        """The names of calls that run."""

    def post(self, message: dict[str, Any]) -> tuple[Post, asyncio.Task[Any]]:
        post = Post(message, self._id)
        return post, asyncio.create_task(post.through(self._app))

    async def call(self, id: int | str, name: str, more: str = "") -> tuple[Post, asyncio.Task[Any]]:
        """A call that runs until its gate is opened."""
        self.gates[name] = asyncio.Event()
        params = {"name": "hold", "arguments": {"name": name, "more": more}}
        post, task = self.post({"id": id, "method": "tools/call", "params": params})
        assert await asyncio.wait_for(self.begun.get(), LIMIT) == name
        return post, task


@pytest_asyncio.fixture
async def session(executor: ToolExecutor) -> AsyncIterator[Session]:
    gates: dict[str, asyncio.Event] = {}
    begun: asyncio.Queue[str] = asyncio.Queue()

    async def hold(name: str, more: str = "") -> str:
        """Hold."""
        begun.put_nowait(name)
        try:
            await gates[name].wait()
        except asyncio.CancelledError:
            begun.put_nowait(f"{name} was cancelled")
            raise
        return f"answer of {name}"

    executor.manager.add(hold)
    server = McpServer(executor.manager, executor)
    app = FastPath(server.sdk.streamable_http_app(host="0.0.0.0"), server, "/mcp", 10_000_000)
    is_up, is_over = asyncio.Event(), asyncio.Event()

    async def run() -> None:  # a task enters and leaves it, and a fixture is none
        async with server.sdk.session_manager.run():
            is_up.set()
            await is_over.wait()

    running = asyncio.create_task(run())
    await is_up.wait()
    hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    opening = Post({"id": 0, "method": "initialize", "params": hello})
    assert (await opening.through(app))["id"] == 0
    made = Session(app, dict(opening.start["headers"])[b"mcp-session-id"].decode(), gates, begun)
    await made.post({"method": "notifications/initialized"})[1]
    yield made
    is_over.set()
    await running
    for task in asyncio.all_tasks():  # of sse-starlette, one for each event loop
        if getattr(task.get_coro(), "__name__", "") == "_shutdown_watcher":
            task.cancel()
            await asyncio.wait([task])


def said(answer: Any) -> tuple[Any, str]:
    return answer["id"], answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("ids", [(7, 7), ("a", "a"), (7, "7"), ("ü\n", "ü\n")], ids=["number", "text", "alike", "odd"])
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids=["in order", "the second first"])
async def test_two_requests_with_one_id_each_get_their_own_answer(
    session: Session, ids: tuple[Any, Any], order: tuple[str, str]
) -> None:
    tasks = {name: (await session.call(id, name))[1] for name, id in zip(("one", "two"), ids, strict=True)}
    for name in order:
        session.gates[name].set()
        assert said(await tasks[name])[1] == f"answer of {name}"
    assert [said(tasks[name].result())[0] for name in ("one", "two")] == list(ids)


async def test_an_id_may_be_used_again_when_its_request_is_answered(session: Session) -> None:
    for name in ("one", "two", "three"):
        task = (await session.call(7, name))[1]
        session.gates[name].set()
        assert said(await task) == (7, f"answer of {name}")


async def test_the_answer_of_a_call_whose_client_has_left_goes_to_nobody_else(session: Session) -> None:
    post, task = await session.call(7, "one")
    post.has_gone.set()
    await task
    again = (await session.call(7, "two"))[1]
    session.gates["one"].set()
    (await session.call(8, "three"))[1].cancel()  # the answer of the first has been sent by then
    assert not again.done()
    session.gates["two"].set()
    assert said(await again) == (7, "answer of two")


async def test_a_large_request_with_an_id_that_is_taken_is_answered_too(session: Session) -> None:
    first = (await session.call(7, "one"))[1]
    second = (await session.call(7, "two", more="x" * (LARGE + 1)))[1]
    for name, task in (("one", first), ("two", second)):
        session.gates[name].set()
        assert said(await task) == (7, f"answer of {name}")


async def test_who_cancels_an_id_cancels_the_last_request_that_has_it(session: Session) -> None:
    first, second = (await session.call(7, "one"))[1], (await session.call(7, "two"))[1]
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 7}}
    await session.post(cancel)[1]
    assert await asyncio.wait_for(session.begun.get(), LIMIT) == "two was cancelled"
    await session.post(cancel)[1]
    assert await asyncio.wait_for(session.begun.get(), LIMIT) == "one was cancelled"
    for task in (first, second):
        task.cancel()


def test_nothing_is_kept_of_requests_that_are_answered_and_little_of_those_whose_clients_left() -> None:
    ids = RequestIds()
    for number in range(3000):
        with ids.passing("session", {"id": number, "method": "x"}) as passed:
            assert passed is not None
            passed.has_left = number % 2 == 0
    assert not ids._open
    assert len(ids._left) == 1000


@pytest.mark.parametrize("message", [{"id": 7, "result": {}}, {"method": "x"}, {"id": None, "method": "x"}])
def test_what_is_no_request_is_left_alone(message: dict[str, Any]) -> None:
    ids, before = RequestIds(), {**message}
    with ids.passing("session", {"id": 7, "method": "x"}), ids.passing("session", message) as passed:
        assert passed is None
    assert message == before
