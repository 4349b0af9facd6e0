"""What runs, over HTTP: seen, stopped, made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest_asyncio

from support.api_client import LIMIT, Asked, asked

TOOLS = '''
import asyncio
from pathlib import Path

def begin():
    with Path(__file__).with_name("begun.txt").open("a") as file:
        file.write(".")

@tool
async def endless(context: ToolContext) -> str:
    """Wait for ever."""
    begin()
    context.progress(1, 3, "waiting")
    await asyncio.Event().wait()
    return ""

@tool(effects="once")
async def stubborn() -> str:
    """Wait for ever, with effects."""
    begin()
    await asyncio.Event().wait()
    return ""

@tool
async def outer(context: ToolContext) -> str:
    """Call another tool."""
    return (await context.call_tool("endless")).text

@tool
async def add(a: int) -> int:
    """Add."""
    return a + 1

@tool(effects="once")
async def write(text: str) -> str:
    """Write."""
    with Path(__file__).with_name("written.txt").open("a") as file:
        print(text, file=file)
    return text

@tool(effects="none")
async def login(password: str) -> str:
    """Log in."""
    return "in"
'''
CONFIG = "[tool.endless]\nconcurrency = 1\n"


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asked(tmp_path / "project", TOOLS, CONFIG) as made:
        yield made


async def running(api: Asked, count: int, begun: int | None = None) -> list[dict[str, Any]]:
    """The running calls, as soon as there are so many, and so many bodies have begun."""
    place = api.runtime.config.root / "tools/begun.txt"
    async with asyncio.timeout(LIMIT):
        while True:
            calls: list[dict[str, Any]] = (await api.get("/api/running"))["calls"]
            bodies = len(place.read_text()) if place.exists() else 0
            if len(calls) == count and bodies >= (begun if begun is not None else min(count, 1)):
                return calls
            await asyncio.sleep(0.01)


async def test_a_hung_call_is_stopped_and_its_caller_is_told_by_whom(api: Asked) -> None:
    calling = asyncio.create_task(api.call("stubborn"))
    [call] = await running(api, 1)
    assert (call["tool"], call["state"], call["parent"]) == ("stubborn", "running", None)
    assert call["started"] < call["deadline"]
    assert await api.post(f"/api/calls/{call['id']}/cancel") == {"state": "stopped"}
    answer = await calling
    assert (answer["error_kind"], answer["side_effects"]) == ("cancelled", "unknown")
    assert answer["error"] == "Tool 'stubborn' was stopped by a client of the HTTP API"
    assert (await api.get("/api/running"))["calls"] == []
    [doubt] = (await api.get("/api/effects"))["effects"]
    assert (doubt["call"]["tool"], doubt["known"]) == ("stubborn", "it was cancelled while it ran")


async def test_a_call_that_waits_for_its_turn_is_stopped_before_it_begins(api: Asked) -> None:
    first, second = (asyncio.create_task(api.call("endless")) for _ in range(2))
    [one, other] = await running(api, 2)
    assert (one["state"], other["state"]) == ("running", "queued")
    await api.post(f"/api/calls/{other['id']}/cancel")
    assert (await second)["side_effects"] == "not_started"
    await api.post(f"/api/calls/{one['id']}/cancel")
    assert (await first)["error_kind"] == "cancelled"
    assert (await api.get("/api/health"))["queues"]["running"] == 0


async def test_a_call_that_another_call_makes_knows_it(api: Asked) -> None:
    calling = asyncio.create_task(api.call("outer"))
    [outer, inner] = await running(api, 2)
    assert inner["parent"] == outer["id"]
    await api.post(f"/api/calls/{inner['id']}/cancel")
    assert "was stopped by" in (await calling)["result"]


async def test_a_call_that_does_not_run_is_not_stopped(api: Asked) -> None:
    refused = await api.client.post("/api/calls/run-1/cancel", json={})
    assert (refused.status_code, "no call run-1 is running" in refused.json()["error"]) == (404, True)


async def test_events_name_the_call_that_a_client_can_stop(api: Asked) -> None:
    calling = asyncio.create_task(api.events("/api/tools/endless/call"))
    async with asyncio.timeout(LIMIT):
        while (call := (await running(api, 1))[0])["progress"] is None:
            pass  # the body has begun, and its report is on the way
    await api.post(f"/api/calls/{call['id']}/cancel")
    events = await calling
    assert events[0] == ("started", {"call": call["id"]})
    assert call["progress"] == {"progress": 1, "total": 3, "message": "waiting"}
    assert ("progress", call["progress"]) in events
    assert events[-1][1]["error_kind"] == "cancelled"


async def test_a_client_that_leaves_cancels_its_call_unless_that_has_a_key(api: Asked) -> None:
    for body, others in (({}, 0), ({"key": "kept"}, 1)):
        await leave(api, body)
        await running(api, others)
    [call] = (await api.get("/api/running"))["calls"]
    await api.post(f"/api/calls/{call['id']}/cancel")


async def leave(api: Asked, body: dict[str, Any]) -> None:
    """Make a call, and leave when it runs."""
    gone = asyncio.Event()
    sent = [{"type": "http.request", "body": orjson.dumps(body), "more_body": False}]

    async def receive() -> Any:
        if sent:
            return sent.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError("nobody is there to be answered")

    async def nothing_else(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError(scope["path"])

    path = "/api/tools/stubborn/call"
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    serving = asyncio.ensure_future(api.api.before(nothing_else)(scope, receive, send))
    await running(api, 1)
    gone.set()
    async with asyncio.timeout(LIMIT):
        await serving


async def test_a_call_is_made_again_and_compared(api: Asked) -> None:
    first = await api.call("add", a="1")
    again = await api.post(f"/api/calls/{first['recorded_as']}/replay")
    assert (again["same"], again["result"], again["before"]["id"]) == (True, 2, first["recorded_as"])
    other = await api.post(f"/api/calls/{first['recorded_as']}/replay", {"set": {"a": 5}})
    assert (other["same"], other["result"], other["after"]["arguments"]) == (False, 6, '{"a":5}')


async def test_a_call_that_may_act_is_made_again_only_if_somebody_confirms_it(api: Asked, tmp_path: Path) -> None:
    first = await api.call("write", text="x")
    refused = await api.post(f"/api/calls/{first['recorded_as']}/replay", status=409)
    assert "'write' may act again (its effects are once)" in refused["error"]
    await api.post(f"/api/calls/{first['recorded_as']}/replay", {"confirm": True})
    assert (tmp_path / "project/tools/written.txt").read_text() == "x\nx\n"


async def test_arguments_that_are_not_on_record_have_to_be_given(api: Asked) -> None:
    await api.call("login", password="canary")
    [row] = (await api.get("/api/calls", tool="login"))["calls"]
    missing = await api.post(f"/api/calls/{row['id']}/replay", status=400)
    assert 'password. Give them with set: {"set": {NAME: VALUE}}' in missing["error"]
    again = await api.post(f"/api/calls/{row['id']}/replay", {"set": {"password": "canary"}})
    assert again["same"]
