"""`toolrun serve` as a process: what it says on stdout, to whom it answers, and how it ends."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from support.console import LIMIT, ROOT, TOOLRUN, environment, toolrun, write_project
from support.serving import ERAS, Served, headers, http_client, line, request, served, stdio_client

TOOLS = '''
    import asyncio
    import fcntl
    from dataclasses import dataclass
    from toolrun import ToolContext

    @dataclass
    class Sum:
        total: int

    @tool
    async def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(a + b)

    met, all_met = [], asyncio.Event()

    @tool
    async def meet(number: int, others: int) -> int:
        """Ends when so many calls of it are under way."""
        met.append(number)
        if len(met) >= others:
            all_met.set()
        await all_met.wait()
        return number

    @tool
    def pass_gate(number: int) -> int:
        """Ends when nobody has locked the gate."""
        with open("gate") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
        return number

    @tool
    def steps(context: ToolContext) -> str:
        """Reports progress."""
        for step in range(3):
            context.progress(step, 3)
        return "done"

    @tool
    async def more(context: ToolContext) -> str:
        """Adds a tool."""
        context.manager.add(tool(name="another")(add.function))
        return "added"

    @tool
    async def endless(context: ToolContext, path: str) -> str:
        """Waits, and writes a file when it is cancelled."""
        open(path + ".started", "w").close()
        try:
            await asyncio.Event().wait()
        finally:
            open(path, "w").close()

    @tool
    async def large() -> str:
        """A text."""
        return "x" * 90_000
'''
LOUD = '''
    import atexit, os, subprocess, sys, threading

    print("while loading")
    atexit.register(print, "at the end")

    @tool
    def loud() -> str:
        """Writes to stdout in every way there is."""
        print("print")
        print("no end of line", end="")
        os.write(1, b"write\\n")
        subprocess.run(["sh", "-c", "echo child; echo child again >&1"])
        sys.__stdout__.write("original\\n")
        thread = threading.Thread(target=print, args=("thread",))
        thread.start()
        thread.join()
        open(1, "w", closefd=False).write("descriptor\\n")
        return f"stdin has {sys.stdin.read()!r}, {os.read(0, 10)!r}"
'''


@contextmanager
def on_stdio(project: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`toolrun serve` with pipes; killed if the test leaves it running."""
    command = [str(TOOLRUN), *options, "serve"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=project, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str], message: dict[str, Any]) -> Any:
    """Send a request and read the next line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line(message))
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, tools=TOOLS)


@asynccontextmanager
async def connected(transport: str, era: str, project: Path, **options: Any) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with stdio_client(project, era, **options) as client:
            yield client
        return
    with served(cwd=project) as server:
        async with http_client(server.url, era, **options) as client:
            yield client


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_every_part_of_the_protocol_works(transport: str, era: str, project: Path) -> None:
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with connected(transport, era, project) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["add"].output_schema is not None
        good = await client.call_tool("add", {"a": "2", "b": 3})
        assert (good.is_error, good.structured_content) == (False, {"total": 5})
        bad = await client.call_tool("add", {"a": "x", "b": 3})
        assert bad.is_error
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nobody", {})
        assert unknown.value.error.code == -32602
        await client.call_tool("steps", {}, progress_callback=hear)
        assert heard == [0, 1, 2]

        cancelled = project / "cancelled"
        call = asyncio.create_task(client.call_tool("endless", {"path": str(cancelled)}))
        await until(project / "cancelled.started")
        call.cancel()
        await until(cancelled)
        await asyncio.wait([call])
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error


async def until(path: Path) -> None:
    async with asyncio.timeout(LIMIT):
        while not path.exists():  # noqa: ASYNC110, ASYNC240  another process writes it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_clients_of_both_eras_are_told_of_a_change(transport: str, project: Path) -> None:
    told = asyncio.Event()

    async def hear(message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            told.set()

    async with connected(transport, "2026-07-28", project) as client:
        async with client.listen(tools_list_changed=True) as changes:
            await client.call_tool("more", {})
            await asyncio.wait_for(anext(aiter(changes)), LIMIT)
        assert "another" in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
    async with connected(transport, "legacy", project, message_handler=hear) as client:
        await client.call_tool("more", {})
        await asyncio.wait_for(told.wait(), LIMIT)


def test_stdout_has_nothing_but_messages_whatever_a_tool_prints(tmp_path: Path) -> None:
    with on_stdio(write_project(tmp_path, loud=LOUD)) as process:
        answer = ask(process, request("tools/call", 1, name="loud", arguments={}))
        assert answer["result"]["content"][0]["text"] == "stdin has '', b''"
        assert len(ask(process, request("tools/list", 2))["result"]["tools"]) == 1
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (0, "")
    printed = ["while loading", "print", "no end of line", "write", "child", "original", "thread", "descriptor"]
    assert [text for text in (*printed, "at the end") if text not in stderr] == []


def test_the_end_of_its_input_is_its_end_and_what_was_asked_is_answered(project: Path) -> None:
    asked = [request("tools/call", number, name="pass_gate", arguments={"number": number}) for number in range(5)]
    with (project / "gate").open("w") as gate, on_stdio(project) as process:
        fcntl.flock(gate, fcntl.LOCK_EX)
        assert process.stdin is not None
        process.stdin.write("".join(map(line, asked)))
        process.stdin.close()
        process.stdin = None
        fcntl.flock(gate, fcntl.LOCK_UN)
        said, noted = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    answers = [json.loads(text) for text in said.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4]
    assert all(answer["result"]["content"][0]["text"] == str(answer["id"]) for answer in answers)
    assert "Serving 7 tools on stdin and stdout" in noted


def test_an_id_that_is_in_use_makes_no_second_call(project: Path) -> None:
    asked = [request("tools/call", 7, name="pass_gate", arguments={"number": number}) for number in (1, 2)]
    with (project / "gate").open("w") as gate, on_stdio(project) as process:
        fcntl.flock(gate, fcntl.LOCK_EX)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(map(line, asked)))
        process.stdin.flush()
        refused = json.loads(process.stdout.readline())
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        fcntl.flock(gate, fcntl.LOCK_UN)
        answer = json.loads(process.stdout.readline())
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, "1")
        again = ask(process, asked[1])
        assert (again["id"], again["result"]["content"][0]["text"]) == (7, "2")


def test_the_input_may_be_a_file(project: Path) -> None:
    (project / "requests").write_text(line(request("tools/list")))
    with (project / "requests").open() as file:
        done = subprocess.run(
            [TOOLRUN, "serve"], cwd=project, env=environment(), stdin=file, capture_output=True, timeout=LIMIT
        )
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["result"]["tools"]) == 7


def test_a_call_that_does_not_end_is_given_up_with_the_input(project: Path) -> None:
    asked = request("tools/call", 1, name="endless", arguments={"path": str(project / "given up")})
    done = toolrun("serve", cwd=project, stdin=line(asked))
    assert done.returncode == 0
    assert (project / "given up").exists()


def test_rubbish_is_answered_and_the_next_message_works(project: Path) -> None:
    with on_stdio(project) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text, code in (("rubbish\n", -32700), ("[]\n", -32600), ("x" * 17_000_000 + "\n", -32700)):
            process.stdin.write(text)
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        malformed = request("tools/call", 7, name="add", arguments=[1])
        assert ask(process, malformed)["error"]["code"] == -32602
        good = ask(process, request("tools/call", 8, name="add", arguments={"a": 1, "b": 2}))
        assert (good["id"], good["result"]["structuredContent"]) == (8, {"total": 3})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_client_that_does_not_read_holds_up_nothing_else(number: signal.Signals, project: Path) -> None:
    with on_stdio(project) as process:
        assert process.stdin is not None
        for count in range(100):  # far more than a pipe holds
            process.stdin.write(line(request("tools/call", count, name="large", arguments={})))
        path = str(project / "cancelled")
        process.stdin.write(line(request("tools/call", 100, name="endless", arguments={"path": path})))
        process.stdin.flush()
        asyncio.run(until(project / "cancelled.started"))
        process.send_signal(number)
        assert process.wait(LIMIT) == (0 if number is signal.SIGTERM else 130)
    assert (project / "cancelled").exists()


SCRIPT = '''# /// script
# requires-python = ">=3.11"
# ///
import os, pathlib, signal, subprocess, time

def script(path: str) -> None:
    """Goes on after every signal that can be caught, with a child."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path(path + ".new").write_text(f"{os.getpid()} {child.pid}")
    os.rename(path + ".new", path)
    while True:
        time.sleep(60)
'''


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_nothing_is_left_of_a_worker_over_stdio(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLRUN_WORKERS_SANDBOX", "off")  # so that the script knows the numbers of its processes
    (write_project(tmp_path) / "tools" / "script.py").write_text(SCRIPT)
    with on_stdio(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(line(request("tools/call", name="script", arguments={"path": str(tmp_path / "pids")})))
        process.stdin.flush()
        check_end(process, end, tmp_path / "pids")


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_nothing_is_left_of_a_worker_over_http(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLRUN_WORKERS_SANDBOX", "off")  # so that the script knows the numbers of its processes
    (write_project(tmp_path) / "tools" / "script.py").write_text(SCRIPT)
    body = json.dumps(request("tools/call", name="script", arguments={"path": str(tmp_path / "pids")}))
    head = {**headers("tools/call", "script"), "host": "localhost", "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with served(cwd=tmp_path) as server, socket.create_connection(server.place, LIMIT) as connection:
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n{body}".encode())
        check_end(server.process, end, tmp_path / "pids")
        if end != "SIGKILL":
            assert connection.recv(100).startswith(b"HTTP/1.1 503 ")


def check_end(process: subprocess.Popen[str], end: str, path: Path) -> None:
    """End a server whose script has written the ids of its processes to `path`, and see that they end too."""
    asyncio.run(until(path))
    pids = [int(pid) for pid in path.read_text().split()]
    assert len(pids) == 2
    ends = [os.pidfd_open(pid) for pid in pids]
    process.send_signal(signal.Signals[end])
    assert process.wait(LIMIT) == {"SIGTERM": 0, "SIGINT": 130, "SIGKILL": -9}[end]
    for descriptor in ends:
        asyncio.run(readable(descriptor))
        os.close(descriptor)


async def readable(descriptor: int) -> None:
    """A process has ended."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    await asyncio.wait_for(ended.wait(), LIMIT)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_500_calls_in_flight(transport: str, era: str, project: Path) -> None:
    async with connected(transport, era, project) as client:
        calls = [client.call_tool("meet", {"number": number, "others": 50}) for number in range(500)]
        results = await asyncio.gather(*calls)
    texts = [block.text for result in results for block in result.content if block.type == "text"]
    assert texts == [str(number) for number in range(500)]


async def test_http_refuses_by_what_the_head_of_a_request_says(project: Path) -> None:
    message = request("tools/call", name="add", arguments={"a": 1, "b": 2})
    good = headers("tools/call", "add")
    with served("--token", "secret", cwd=project) as server:
        async with httpx2.AsyncClient(timeout=LIMIT) as http:

            async def status(**changed: str) -> int:
                own = {"authorization": "Bearer secret", **good, **{k.replace("_", "-"): v for k, v in changed.items()}}
                return (await http.post(server.url, json=message, headers=own)).status_code

            assert await status() == 200
            assert await status(authorization="Bearer wrong") == 401
            assert await status(host="evil.example") == 421
            assert await status(origin="http://evil.example") == 403
            assert await status(content_type="text/plain") == 415
            assert await status(accept="text/html") == 406
            assert await status() == 200
            missing = await http.post(server.url, json=message, headers=good)
            assert (missing.status_code, missing.headers["www-authenticate"]) == (401, "Bearer")
            assert "Bearer TOKEN" in missing.json()["error"]
        async with http_client(server.url, "2026-07-28", token="secret") as client:
            assert len((await client.list_tools()).tools) == 7


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(is_declared: bool, project: Path) -> None:
    with served(cwd=project) as server:
        reader, writer = await asyncio.open_connection(*server.place)
        length = "content-length: 100000000000" if is_declared else "transfer-encoding: chunked"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers("tools/list").items())
        writer.write(f"POST /mcp HTTP/1.1\r\nhost: localhost\r\n{length}\r\n{lines}\r\n".encode())
        answer = asyncio.create_task(reader.readline())
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        while not is_declared and not answer.done():
            try:
                writer.write(chunk)
                await writer.drain()
            except ConnectionError:
                break
        assert (await asyncio.wait_for(answer, LIMIT)).split()[1] == b"413"
        writer.close()
        async with http_client(server.url, "2026-07-28") as client:
            assert len((await client.list_tools()).tools) == 7


@pytest.mark.parametrize("era", ERAS)
async def test_it_stops_although_streams_are_open(era: str, project: Path) -> None:
    with served(cwd=project) as server:
        async with httpx2.AsyncClient(timeout=LIMIT) as http, stream(http, server, era) as response:
            assert response.status_code == 200
            server.process.terminate()
            ended = asyncio.create_task(asyncio.to_thread(server.end))
            async for _ in response.aiter_lines():
                pass
            assert await asyncio.wait_for(ended, LIMIT) == 0
    assert [text for text in server.log if "rror" in text or "Traceback" in text] == []


@asynccontextmanager
async def stream(http: httpx2.AsyncClient, server: Served, era: str) -> AsyncIterator[httpx2.Response]:
    """A stream that stays open until the server ends it."""
    if era != "legacy":
        message = request("subscriptions/listen", notifications={"toolsListChanged": True})
        own = headers("subscriptions/listen")
        async with http.stream("POST", server.url, json=message, headers=own) as response:
            yield response
        return
    own = {"accept": "application/json, text/event-stream"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await http.post(server.url, json=hello, headers=own)
    own |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    await http.post(server.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=own)
    async with http.stream("GET", server.url, headers=own) as response:
        yield response


def test_what_cannot_be_served_is_said_in_one_line(project: Path) -> None:
    open_to_all = toolrun("serve", "--http", "0.0.0.0:0", "--no-token", cwd=project)
    assert open_to_all.returncode == 2
    assert "others could call your tools there. Leave out --no-token" in open_to_all.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        in_use = toolrun("serve", "--http", str(taken.getsockname()[1]), cwd=project)
    assert in_use.returncode == 2
    assert "choose another port" in in_use.stderr
    only_http = toolrun("serve", "--token", "x", cwd=project)
    assert (only_http.returncode, only_http.stderr.splitlines()[0]) == (2, "toolrun: --token is for --http only")


def test_beyond_loopback_it_serves_with_a_token(project: Path) -> None:
    command = [str(TOOLRUN), "serve", "--http", "0.0.0.0:0", "--allowed-host", "tools.example"]
    env = environment({"TOOLRUN_SERVE_TOKEN": "secret"})
    with subprocess.Popen(command, cwd=project, env=env, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[4].replace("0.0.0.0", "127.0.0.1")
        own = {**headers("tools/list"), "authorization": "Bearer secret", "host": "tools.example"}
        answer = httpx2.post(url, json=request("tools/list"), headers=own, timeout=LIMIT)
        assert len(answer.json()["result"]["tools"]) == 7
        process.terminate()


def test_problems_are_told_and_the_rest_is_served(project: Path) -> None:
    (project / "tools" / "broken.py").write_text("import nonsense_that_is_not_there\n")
    with served(cwd=project) as server:
        assert "nonsense_that_is_not_there" in server.log[0]
        [serving] = [line for line in server.log if line.startswith("Serving")]
        assert serving.startswith("Serving 7 tools at http://127.0.0.1:")
        assert "; 1 problem, see above" in serving


def test_without_its_packages_it_says_how_to_get_them(project: Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from toolrun.cli import main; sys.exit(main(['serve']))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, env=environment(), capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 2
    assert done.stderr.endswith("pip install 'toolrun[mcp]'\n")
    assert len(done.stderr.splitlines()) == 1


def test_other_commands_do_not_load_the_sdk() -> None:
    program = "import sys\nfrom toolrun.cli import main\nmain(['list'])\nassert 'mcp' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "examples" / "quickstart", env=environment(), timeout=LIMIT
    )
    assert done.returncode == 0
