"""Calls that take their time: deadlines, callers that go away, progress, changes of the tools meanwhile."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from faults.bench import is_timeout, reported, until
from faults_mcp.bench import SERVERS, Servers
from toolrun import ErrorKind, Runtime
from toolrun.tools.context import Progress


def cancelled_ids(servers: Servers) -> list[object]:
    return [it["params"]["requestId"] for it in servers.received() if it.get("method") == "notifications/cancelled"]


def call_ids(servers: Servers, tool: str) -> list[object]:
    found = [it for it in servers.received() if it.get("method") == "tools/call"]
    return [it["id"] for it in found if it["params"]["name"] == tool]


async def test_a_server_that_hangs_is_killed_some_time_after_the_deadline(servers: Servers) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        async with tools.bystander():
            result = await tools.run("time.sleep(300)", timeout=0.2)
            assert is_timeout(result)
            await until(lambda: tools.server().session is None or len(servers.starts()) > 1, "the end of the server")
        assert await tools.works() != pid
    assert len(servers.starts()) == 2


async def test_a_server_that_begins_to_hang_after_it_was_found_alive_is_killed_too(servers: Servers) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        path = str(servers.root / "never")
        assert is_timeout(await tools.call("subject__wait_for", path=path, value="x", timeout=0.05))
        assert await tools.works() == pid
        assert is_timeout(await tools.run("time.sleep(300)", timeout=0.05))
        await until(lambda: len(servers.starts()) == 2, "a new process")
        assert await tools.works() != pid


async def test_a_server_that_does_not_read_is_killed_too(servers: Servers) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        code = "progress(1); time.sleep(300)"
        hanging = await reported(lambda on_progress: tools.run(code, timeout=0.3, on_progress=on_progress))
        result = await tools.run("", data="x" * 5_000_000, timeout=0.2)
        assert is_timeout(result)
        assert is_timeout(await hanging)
        await until(lambda: len(servers.starts()) == 2, "a new process")
        assert await tools.works() != pid


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_still_answers_is_told_and_left_alone(servers: Servers, era: str) -> None:
    servers.add("subject", era)
    async with servers.open(grace=0.1) as tools:
        pid = await tools.works()
        path = servers.root / "never"
        result = await tools.call("subject__wait_for", path=str(path), value="x", timeout=0.1)
        assert is_timeout(result)
        await until(lambda: cancelled_ids(servers) == call_ids(servers, "wait_for"), "the cancellation")
        await until(lambda: "ping" in [it.get("method") for it in servers.received()], "the question whether it lives")
        session: Any = tools.server().session
        await until(lambda: session.channel._timer is None, "the end of the time that it has to answer")
        assert await tools.works() == pid
        path.touch()  # its answer comes late, and is nobody's
        assert await tools.works() == pid


async def test_a_caller_that_goes_away_is_told_to_the_server(servers: Servers) -> None:
    async with servers.open() as tools:
        path = str(servers.root / "never")
        call = await reported(
            lambda on_progress: tools.call("subject__wait_for", path=path, value="x", on_progress=on_progress)
        )
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: cancelled_ids(servers) == call_ids(servers, "wait_for"), "the cancellation")
        await tools.works()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_progress_reaches_the_caller(servers: Servers, era: str) -> None:
    servers.add("subject", era)
    async with servers.open() as tools:
        seen: list[Progress] = []
        await tools.run("progress(0.5); progress(1)", on_progress=seen.append)
        assert seen == [Progress(0.5, 2, "on the way"), Progress(1, 2, "on the way")]
        assert (await tools.run("progress(1)")).success  # nobody wants to know


async def test_a_listener_that_fails_costs_nothing(servers: Servers) -> None:
    def fail(_: Progress) -> None:
        raise LookupError

    async with servers.open() as tools:
        assert (await tools.run("progress(1)", on_progress=fail)).success


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_tools_follow_those_of_the_server(servers: Servers, era: str) -> None:
    servers.add("subject", era)
    async with servers.open() as tools:
        if era == "modern":
            await until(lambda: "subscriptions/listen" in servers.methods(), "the question for changes")
        servers.lists("subject", {"name": "late", "inputSchema": {"type": "object"}})
        await tools.run("changed()")
        await tools.has("late")
        before = tools.runtime.manager.get("subject__run")
        assert (await tools.call("late")).result == "late {}"

        servers.lists("subject", {"name": "late", "description": "Other.", "inputSchema": {"type": "object"}})
        await tools.run("changed()")
        await until(lambda: tools.runtime.manager.by_name["late"].description == "Other.", "the other description")
        assert tools.runtime.manager.get("subject__run") is before

        servers.lists("subject")
        await tools.run("changed()")
        await tools.lacks("late")
        assert (await tools.call("late")).error_kind is ErrorKind.UNKNOWN_TOOL
        await tools.works()


async def test_tools_that_are_gone_after_a_restart_are_gone_here(servers: Servers) -> None:
    servers.lists("subject", {"name": "late", "inputSchema": {"type": "object"}})
    async with servers.open() as tools:
        assert "late" in tools.runtime.manager
        servers.lists("subject")
        await tools.run("os._exit(1)")
        await tools.works()
        assert "late" not in tools.runtime.manager


async def test_tools_are_left_out_by_pattern_and_by_name(servers: Servers) -> None:
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in ("get_a", "get_b", "get_secret", "set_a")]
    servers.lists("subject", *listed)
    servers.add("subject", include=["get_*"], exclude=["*secret*"])
    path = servers.configure()
    path.write_text(f"{path.read_text()}[tool.get_b]\nenabled = false\n")
    async with Runtime.open(path) as runtime:
        await runtime.ready()
        assert {tool.name for tool in runtime.manager} == {"get_a", "run", "wait_for"}


async def test_the_time_limit_is_that_of_the_server_section(servers: Servers) -> None:
    servers.add("subject", timeout=0.1)
    async with servers.open() as tools:
        path = str(servers.root / "never")
        result = await tools.runtime.executor.execute("subject__wait_for", {"path": path, "value": "x"})
        assert str(result.error).endswith("timed out after 0.1 s")


async def test_many_calls_at_once_have_each_their_own_answer(servers: Servers) -> None:
    async with servers.open() as tools:
        calls = [tools.run(f"answer = {number}") for number in range(500)]
        results = await asyncio.gather(*calls)
        assert [result.result for result in results] == [str(number) for number in range(500)]


async def test_a_server_made_with_the_sdk_speaks_the_newer_era(servers: Servers) -> None:
    servers.put("sdk", command=sys.executable, args=[str(SERVERS / "sdk.py"), "stdio"])
    async with servers.open() as tools:
        assert tools.server("sdk").version == "2026-07-28"
        result = await tools.call("add", a=2, b=3)
        assert (result.result, result.text) == ({"sum": 5}, "5")
        assert (await tools.call("fail")).error == "it failed"
        call = await reported(lambda on_progress: tools.call("sleep", on_progress=on_progress, timeout=0.2))
        assert is_timeout(await call)
        await tools.call("grow")
        await tools.has("grown")
