"""Servers over HTTP: the same faults, where they have another shape."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faults.bench import is_timeout, is_unavailable, reported, until
from faults_mcp.bench import SERVERS, Servers, Tools, Web
from toolrun import ErrorKind, SideEffects


@pytest.fixture
def web(servers: Servers) -> Iterator[Web]:
    with Web(servers.root).running() as web:
        servers.put("web", url=web.url, headers={"X-Token": "abc"})
        yield web


@contextmanager
def sdk_server(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, str(SERVERS / "sdk.py"), "http", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp", process
        finally:
            process.kill()


@pytest.fixture
def sdk_url() -> Iterator[str]:
    with sdk_server() as (url, _):
        yield url


async def test_tools_are_listed_and_called_with_the_headers(servers: Servers, web: Web) -> None:
    async with servers.open() as tools, tools.bystander():
        assert tools.server("web").version == "2025-11-25"
        assert (await tools.run("answer = 6 * 7", "do")).result == "42"
    assert {it["headers"].get("x-token") for it in web.received()} == {"abc"}


@pytest.mark.parametrize("unknown", [404, 400])
async def test_a_server_that_forgets_its_session_gets_a_new_one(servers: Servers, unknown: int) -> None:
    with Web(servers.root, unknown).running() as web:
        servers.put("web", url=web.url)
        async with servers.open() as tools:
            await tools.works("do")
            await tools.run("SESSIONS.clear()", "do")
            async with tools.bystander():
                result = await tools.run("open('acted', 'w')", "do")
            assert is_unavailable(result)
            assert "forgotten the session" in str(result.error)
            await until(lambda: tools.server("web").session is not None, "a new session")
            await tools.works("do")
        assert not (web.root / "acted").exists()


async def test_a_server_that_is_started_again_works_again(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        before = await tools.works("do")
        web.stop()
        async with tools.bystander():
            await until_unavailable(tools)
        assert "do" in tools.runtime.manager
        web.start()
        await until(lambda: tools.server("web").session is not None, "a new session")
        assert await tools.works("do") != before


async def until_unavailable(tools: Tools) -> None:
    """The first call may find a connection that only looks open."""
    for _ in range(20):
        result = await tools.run("", "do")
        assert result.error_kind is ErrorKind.UNAVAILABLE
        if result.side_effects is SideEffects.NOT_STARTED:
            return
    raise AssertionError("it never says that it could not be reached")


async def test_a_server_that_dies_in_a_call(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        result = await tools.fault("os._exit(1)", "do")
        assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)


def until_the_gate_is_open(servers: Servers) -> str:
    """Code that waits for the test."""
    return f"while not Path({str(servers.root / 'gate')!r}).exists(): time.sleep(0.005)"


async def test_a_connection_that_breaks_costs_its_own_call(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        other = asyncio.create_task(tools.run(until_the_gate_is_open(servers), "do"))
        result = await tools.fault("connection.shutdown(2); answer = None", "do")
        assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)
        (servers.root / "gate").touch()
        assert (await other).success


async def test_a_deadline_is_told_to_the_server(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        async with tools.bystander():
            assert is_timeout(await tools.run(until_the_gate_is_open(servers), "do", timeout=0.2))
            (servers.root / "gate").touch()
        await until(
            lambda: "notifications/cancelled" in [it.get("method") for it in web.received()], "the cancellation"
        )
        await tools.works("do")


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("give(200, b'not JSON', 'application/json'); answer = None", ErrorKind.PROTOCOL, "not JSON"),
        ("give(200, b'x' * 50_000_000, 'application/json'); answer = None", ErrorKind.PROTOCOL, "longer than"),
        ("give(200, b'<html>', 'text/html'); answer = None", ErrorKind.PROTOCOL, "text/html"),
        ("give(202, b'', 'text/plain'); answer = None", ErrorKind.PROTOCOL, "HTTP 202"),
        ("give(204, b'', ''); answer = None", ErrorKind.PROTOCOL, "HTTP 204"),
        ("give(500, b'oops', 'text/plain'); answer = None", ErrorKind.TOOL_ERROR, "HTTP 500"),
    ],
    ids=["rubbish", "too long", "another type", "accepted", "nothing", "failure"],
)
async def test_an_answer_that_is_none_costs_its_own_call(
    servers: Servers, web: Web, code: str, kind: ErrorKind, words: str
) -> None:
    async with servers.open() as tools:
        result = await tools.fault(code, "do")
        assert (result.error_kind, result.side_effects) == (kind, SideEffects.UNKNOWN)
        assert words in result.text
        await tools.works("do")


async def test_changes_are_told_in_the_older_era(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        # The stream on which it tells is opened after the handshake, and nobody says when.
        wait = "while not STREAMS: time.sleep(0.005)"
        await tools.run(f"{wait}\nTOOLS.append({{**TOOLS[0], 'name': 'late'}})\nchanged()", "do")
        await tools.has("late")


async def test_the_older_sse(servers: Servers, web: Web) -> None:
    servers.put("web", url=web.url.replace("/mcp", "/sse"), transport="sse")
    async with servers.open() as tools:
        before = await tools.works("do")
        assert is_timeout(await tools.run(until_the_gate_is_open(servers), "do", timeout=0.2))
        (servers.root / "gate").touch()
        result = await tools.fault("os._exit(1)", "do")
        assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)
        web.stop()
        web.start()
        await until(lambda: tools.server("web").session is not None, "a new session")
        assert await tools.works("do") != before


async def test_a_server_made_with_the_sdk_speaks_the_newer_era(servers: Servers, sdk_url: str) -> None:
    servers.put("sdk", url=sdk_url)
    async with servers.open() as tools:
        assert tools.server("sdk").version == "2026-07-28"
        result = await tools.call("add", a=2, b=3)
        assert (result.result, result.text) == ({"sum": 5}, "5")
        call = await reported(lambda on_progress: tools.call("sleep", on_progress=on_progress, timeout=0.5))
        assert is_timeout(await call)
        await tools.call("grow")
        await tools.has("grown")


async def test_nobody_listens_at_the_address(servers: Servers) -> None:
    servers.put("web", url="http://127.0.0.1:9/mcp")
    async with servers.open() as tools:
        assert "http://127.0.0.1:9/mcp cannot be reached" in tools.server("web").error
        await tools.works()


async def test_a_server_that_does_not_listen_yet_is_still_asked_for_its_era(servers: Servers) -> None:
    with sdk_server("wait") as (url, process):
        servers.put("sdk", url=url)
        async with servers.open() as tools:
            supervisor = tools.server("sdk")
            assert "cannot be reached" in supervisor.error
            print(file=process.stdin, flush=True)
            await until(lambda: supervisor.session is not None, "a connection")
            assert supervisor.version == "2026-07-28"
