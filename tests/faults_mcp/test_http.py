"""Servers over HTTP: the same faults, where they have another shape."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from faults.bench import is_timeout, is_unavailable, reported, until
from faults_mcp.bench import SERVERS, Servers, Tools, Web
from toolrun import ErrorKind, SideEffects
from toolrun.mcp.client import large_message, mcp_tool


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


async def test_the_key_of_a_call_is_in_its_meta_and_in_a_header(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        for _ in range(2):
            assert (await tools.call("do", code="answer = 1")).success
    calls = [it for it in web.received() if it.get("method") == "tools/call"]
    keys = [it["params"]["_meta"]["toolrun/idempotencyKey"] for it in calls]
    assert (len(set(keys)), {len(key) for key in keys}) == (2, {32})
    assert [it["headers"].get("idempotency-key") for it in calls] == keys
    others = [it for it in web.received() if it not in calls]
    assert not any("idempotency-key" in it["headers"] for it in others)


def acts(name: str) -> str:
    """Code that leaves a line in the server's directory, and answers with its name."""
    return f"with open('acted', 'a') as file: file.write({name + chr(10)!r})\nanswer = {name!r}"


def acted(web: Web) -> list[str]:
    path = web.root / "acted"
    return sorted(path.read_text().split()) if path.exists() else []


def count(web: Web, method: str) -> int:
    return [it.get("method") for it in web.received()].count(method)


@pytest.mark.parametrize("unknown", [404, 400])
async def test_calls_of_a_session_that_the_server_has_forgotten_are_made_once_in_a_new_one(
    servers: Servers, unknown: int
) -> None:
    with Web(servers.root, unknown).running() as web:
        servers.put("web", url=web.url)
        async with servers.open() as tools:
            await tools.run("SESSIONS.clear()", "do")
            names = [f"call{number}" for number in range(8)]
            async with tools.bystander():
                results = await asyncio.gather(*(tools.run(acts(name), "do") for name in names))
            assert [(it.result, it.error) for it in results] == [(name, None) for name in names]
        assert acted(web) == names
        assert count(web, "initialize") == 2


async def test_a_call_that_a_forgotten_session_has_accepted_is_answered_there(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        early = asyncio.create_task(tools.run(f"{acts('early')}\n{until_the_gate_is_open(servers)}", "do"))
        await until(lambda: acted(web) == ["early"], "the call on the server")
        await tools.run("SESSIONS.clear()", "do")
        async with tools.bystander():
            late = await tools.run(acts("late"), "do")  # in a new session, while the other call goes on
        assert late.result == "late"
        (servers.root / "gate").touch()
        assert (await early).result == "early"
    assert acted(web) == ["early", "late"]


async def test_a_call_that_a_forgotten_session_has_accepted_and_cannot_answer_is_in_doubt_and_not_repeated(
    servers: Servers, web: Web
) -> None:
    breaks = "connection.shutdown(2)\nanswer = None"
    async with servers.open() as tools:
        early = asyncio.create_task(tools.run(f"{acts('early')}\n{until_the_gate_is_open(servers)}\n{breaks}", "do"))
        await until(lambda: acted(web) == ["early"], "the call on the server")
        await tools.run("SESSIONS.clear()", "do")
        assert (await tools.run(acts("late"), "do")).result == "late"
        (servers.root / "gate").touch()
        result = await early
        assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)
        await tools.works("do")
    assert acted(web) == ["early", "late"]


async def test_the_end_of_a_program_does_not_wait_for_a_call_in_a_forgotten_session(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        early = asyncio.create_task(tools.run(f"{acts('early')}\n{until_the_gate_is_open(servers)}", "do"))
        await until(lambda: acted(web) == ["early"], "the call on the server")
        await tools.run("SESSIONS.clear()", "do")
        await tools.works("do")
    result = await early
    assert result.side_effects is SideEffects.UNKNOWN
    (servers.root / "gate").touch()


async def test_a_server_that_forgets_every_session_is_asked_for_one_more_only(servers: Servers, web: Web) -> None:
    forgets = """
        import __main__
        real = __main__.Handler.answer
        def forgetful(self, message):
            given = real(self, message)
            if message.get("method") in ("tools/call", "tools/list"):
                SESSIONS.clear()
            return given
        __main__.Handler.answer = forgetful
        SESSIONS.clear()
    """
    async with servers.open() as tools:
        await tools.run(forgets, "do")
        result = await tools.run(acts("never"), "do")
        assert is_unavailable(result)
        assert "no longer knows the session" in str(result.error)
    assert acted(web) == []
    calls = [it for it in web.received() if it.get("method") == "tools/call"]
    assert len(calls) == 3  # the one that made it forget, and two attempts of the other
    assert len({it["params"]["_meta"]["toolrun/idempotencyKey"] for it in calls}) == 2


async def test_a_server_that_ignores_the_question_for_its_era_gets_the_handshake_beside_it(servers: Servers) -> None:
    with Web(servers.root, unknown=0).running() as web:
        servers.put("web", url=web.url, start_timeout=600)
        async with servers.open() as tools:
            assert tools.server("web").version == "2025-11-25"
            await tools.works("do")
        assert [it["method"] for it in web.received()[:2]] == ["server/discover", "initialize"]
        async with servers.open() as tools:  # it is asked no more
            await tools.works("do")
    assert [it["method"] for it in web.received()].count("server/discover") == 1


CAPABILITIES: dict[str, Any] = {"tools": {}}
BOTH_ERAS: dict[str, Any] = {
    "server/discover": {"supportedVersions": ["2026-07-28", "2025-11-25"], "capabilities": CAPABILITIES},
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "both"}},
    "tools/list": {"tools": [{"name": "both", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "here"}], "resultType": "complete"},
}


async def test_a_server_with_both_eras_that_takes_long_speaks_the_newer_one_and_is_left_no_session_of_the_older(
    servers: Servers,
) -> None:
    asked: list[tuple[str, str, str | None]] = []
    is_late, is_discovered, has_shaken_hands = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")[1:-2]
                head = dict(line.split(": ", 1) for line in lines)
                message = json.loads(await reader.readexactly(int(head.get("content-length", "0"))) or b"{}")
                method = message.get("method", "end")
                asked.append((method, head.get("mcp-protocol-version", ""), head.get("mcp-session-id")))
                if method == "server/discover":
                    await is_late.wait()
                elif method == "initialize":
                    is_late.set()
                    await is_discovered.wait()
                elif method == "tools/list":
                    await has_shaken_hands.wait()
                body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": BOTH_ERAS.get(method, {})})
                session = "mcp-session-id: s1\r\n" if method == "initialize" else ""
                writer.write(
                    f"HTTP/1.1 200 OK\r\n{session}content-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n\r\n{body}".encode()
                )
                {"server/discover": is_discovered, "initialize": has_shaken_hands}.get(method, asyncio.Event()).set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        servers.put("web", url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        async with servers.open(discover_timeout=0.01) as tools:
            assert tools.server("web").version == "2026-07-28"
            assert (await tools.call("both")).result == "here"
    assert [method for method, _, _ in asked[:2]] == ["server/discover", "initialize"]
    assert asked[2:] == [("tools/list", "2026-07-28", None), ("tools/call", "2026-07-28", None), ("end", "", "s1")]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_an_answer_may_be_as_long_as_the_limit_says(servers: Servers, transport: str) -> None:
    with Web(servers.root).running() as web:
        path = {"http": "mcp", "sse": "sse"}[transport]
        servers.put("web", url=f"http://127.0.0.1:{web.port}/{path}", transport=transport)
        async with servers.open(max_message_mb=3) as tools, tools.bystander():
            long = await tools.run("answer = 'x' * 2_900_000", "do")
            assert long.success, long.error
            assert len(str(long.result)) == 2_900_000

            too_long = await tools.run("answer = 'x' * 3_100_000", "do")
            assert not too_long.success
            assert too_long.side_effects is SideEffects.UNKNOWN
            assert re.search("3,?000,?000", str(too_long.error))
            if transport == "sse":
                assert too_long.error_kind is ErrorKind.UNAVAILABLE
                assert "[mcp] max_message_mb sets the limit" in str(too_long.error)
            await until(lambda: tools.server("web").session is not None, "a session")
            await tools.works("do")


LARGE_ANSWERS = {
    "json": "give(200, text.encode(), 'application/json')",
    "events": "give(200, f'event: message\\ndata: {text}\\n\\n'.encode(), 'text/event-stream')",
    "older sse": "for stream in STREAMS.values(): stream.put(json.loads(text))",
}


@pytest.mark.parametrize("how", LARGE_ANSWERS)
async def test_a_large_answer_is_read_and_understood_in_threads(
    servers: Servers, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    for module, name in ((large_message, "loads_in_pieces"), (mcp_tool, "read_result")):
        real = getattr(module, name)

        def noting(*given: Any, real: Any = real) -> Any:
            threads.append(threading.get_ident())
            return real(*given)

        monkeypatch.setattr(module, name, noting)
    code = f"""
        import json
        rows = [{{"n": n, "text": "a, b"}} for n in range(40_000)]
        result = {{"content": [], "structuredContent": {{"rows": rows}}}}
        text = json.dumps({{"jsonrpc": "2.0", "id": number, "result": result}})
        {LARGE_ANSWERS[how]}
        answer = None
    """
    with Web(servers.root).running() as web:
        path, transport = ("sse", "sse") if how == "older sse" else ("mcp", "http")
        servers.put("web", url=f"http://127.0.0.1:{web.port}/{path}", transport=transport)
        async with servers.open() as tools, tools.bystander():
            result = await tools.run(code, "do")
            assert result.success, result.error
            assert result.result == {"rows": [{"n": n, "text": "a, b"} for n in range(40_000)]}
            assert len(threads) == 2
            assert threading.get_ident() not in threads
            await tools.works("do")


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_large_arguments_arrive_as_they_are(servers: Servers, transport: str) -> None:
    with Web(servers.root).running() as web:
        path = {"http": "mcp", "sse": "sse"}[transport]
        servers.put("web", url=f"http://127.0.0.1:{web.port}/{path}", transport=transport)
        async with servers.open() as tools, tools.bystander():
            code = "answer = sum(" + json.dumps(list(range(150_000))) + ")"
            assert (await tools.run(code, "do")).result == str(sum(range(150_000)))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("", "it ended the stream of events, and has named no endpoint"),
        ("event: endpoint\ndata: http://other.example/x\n\n", "it names an endpoint of another server"),
        ("event: message\ndata: {}\n\n", "it ended the stream of events, and has named no endpoint"),
    ],
    ids=["none", "of another server", "a message instead"],
)
async def test_an_older_server_without_an_endpoint_of_its_own_is_not_used(
    servers: Servers, event: str, words: str
) -> None:
    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        writer.write((head + event).encode())
        writer.close()

    async with await asyncio.start_server(give, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        servers.put("web", url=f"http://127.0.0.1:{port}/sse", transport="sse")
        async with servers.open() as tools:
            assert words in tools.server("web").error


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


def instead(message: str) -> str:
    """Code that gives a message in place of the answer."""
    return f"give(200, {message!r}.encode(), 'application/json'); answer = None"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("give(200, b'not JSON', 'application/json'); answer = None", ErrorKind.PROTOCOL, "not JSON"),
        ("give(200, b'x' * 50_000_000, 'application/json'); answer = None", ErrorKind.PROTOCOL, "longer than"),
        ("give(200, b'<html>', 'text/html'); answer = None", ErrorKind.PROTOCOL, "text/html"),
        ("give(202, b'', 'text/plain'); answer = None", ErrorKind.PROTOCOL, "HTTP 202"),
        ("give(204, b'', ''); answer = None", ErrorKind.PROTOCOL, "HTTP 204"),
        ("give(500, b'oops', 'text/plain'); answer = None", ErrorKind.TOOL_ERROR, "HTTP 500"),
        (instead('{"jsonrpc": "2.0", "id": 987654, "result": {}}'), ErrorKind.PROTOCOL, "the id of the request"),
        (instead('{"jsonrpc": "2.0", "method": "notifications/x"}'), ErrorKind.PROTOCOL, "the id of the request"),
    ],
    ids=[
        "rubbish",
        "too long",
        "another type",
        "accepted",
        "nothing",
        "failure",
        "of another request",
        "a notification",
    ],
)
async def test_an_answer_that_is_none_costs_its_own_call(
    servers: Servers, web: Web, code: str, kind: ErrorKind, words: str
) -> None:
    async with servers.open() as tools:
        result = await tools.fault(code, "do")
        assert (result.error_kind, result.side_effects) == (kind, SideEffects.UNKNOWN)
        assert words in result.text
        await tools.works("do")


async def test_an_error_without_an_id_is_the_answer_to_the_request_that_it_came_for(servers: Servers, web: Web) -> None:
    async with servers.open() as tools:
        error = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no way"}}'
        result = await tools.fault(instead(error), "do")
        assert (result.error_kind, result.side_effects) == (ErrorKind.TOOL_ERROR, SideEffects.FAILED)
        assert "no way" in result.text
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
