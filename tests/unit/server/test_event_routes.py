"""Events over HTTP: each listener for itself, nobody waits for one, and nothing is observed without any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.api_client import Asked, asked, listening
from toolrun import tool
from toolrun.server.event_hub import Subscription

TOOLS = '''
@tool
async def add(a: int) -> int:
    """Add."""
    return a + 1

@tool(effects="once")
async def send() -> str:
    """Send."""
    raise TimeoutError("no answer")

@tool(approval="ask")
async def remove() -> str:
    """Remove."""
    return "removed"
'''


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asked(tmp_path / "project", TOOLS) as made:
        yield made


async def test_a_call_is_told_of_when_it_starts_and_when_it_ends(api: Asked) -> None:
    async with listening(api.api) as one, listening(api.api) as other:
        done = await api.call("add", a="1")
        for listener in (one, other):
            started, ended = await listener.next("call"), await listener.next("call")
            assert (started["phase"], started["tool"], started["outcome"]) == ("started", "add", "running")
            assert (ended["phase"], ended["run"], ended["id"]) == ("ended", started["run"], done["recorded_as"])
            assert (ended["outcome"], ended["error_kind"]) == ("ok", None)
            assert "arguments" not in ended
        await api.call("add", a="x")
        await one.next("call")
        assert (await one.next("call"))["outcome"] == "refused"


async def test_changes_of_the_journal_and_of_the_tools_are_told_of(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolrun.server.event_hub._LOOK", 0.01)
    async with listening(api.api) as listener:
        await api.call("add", a=1)  # after the first look, or this one is waited for
        await asyncio.sleep(0.05)
        await api.call("send")
        assert await listener.next("effects") == {}
        await api.call("remove")
        assert await listener.next("approval") == {}

        @tool
        def another() -> str:
            """Another tool."""
            return ""

        api.runtime.manager.add(another)
        assert await listener.next("tools") == {}


async def test_without_listeners_nothing_is_observed(api: Asked) -> None:
    calls = api.api._state.running_calls
    async with listening(api.api):
        assert (len(calls.on_start), len(calls.on_end), len(api.runtime.manager.on_change)) == (1, 1, 1)
    assert (calls.on_start, calls.on_end, api.runtime.manager.on_change) == ([], [], [])


async def test_a_slow_listener_holds_up_nobody_and_is_told_what_it_missed(api: Asked) -> None:
    async with listening(api.api) as slow, listening(api.api) as quick:
        slow.is_slow.clear()
        for number in range(200):
            await api.call("add", a=number)
            for phase in ("started", "ended"):
                assert (await quick.next("call"))["phase"] == phase
        slow.is_slow.set()
        assert (await slow.next("missed"))["calls"] > 100


async def test_a_queue_keeps_what_it_has_and_says_each_change_once() -> None:
    queue = Subscription()
    for number in range(300):
        queue.put(("call", number))
        queue.put(("tools", None))
    found = [await queue.get() for _ in range(257)]
    assert [data for name, data in found if name == "call"] == list(range(255))
    assert [name for name, _ in found if name == "tools"] == ["tools"]
    assert found[-1] == ("missed", {"calls": 45})


async def test_head_of_a_stream_has_its_head_and_ends(api: Asked) -> None:
    answer = await api.client.head("/api/events")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.content == b""
