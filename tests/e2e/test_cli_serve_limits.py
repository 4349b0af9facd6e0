"""`toolrun serve --http` among clients that send too much, too slowly, or nothing: the others are served.

Raw sockets against a real process; what a test waits for is the end of a connection, never a time.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import httpx2
import pytest

from support.console import LIMIT, write_project
from support.serving import Served, headers, request, served

TOOLS = '''
    import asyncio

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool
    async def wait(path: str) -> str:
        """Writes a file, and waits for ever."""
        open(path, "w").close()
        await asyncio.Event().wait()

    @tool
    async def much() -> str:
        """More than all buffers hold."""
        return "x" * 30_000_000
'''
QUICK = "[serve]\nhead_timeout = 0.3\nbody_timeout = 0.3\nidle_timeout = 0.3\n"
SLOW = "[serve]\nhead_timeout = 100\nbody_timeout = 100\nidle_timeout = 100\n"
BODY = json.dumps(request("tools/call", name="add", arguments={"a": 1, "b": 2})).encode()


def head(length: int | None = len(BODY), tool: str = "add", **more: str) -> bytes:
    """The head of a call."""
    lines = {"host": "localhost", **headers("tools/call", tool), **more}
    lines |= {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
    return b"POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()


def everything(connection: socket.socket) -> bytes:
    """What the server says until it closes the connection."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:  # it had not read all that was sent
        pass
    return received


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def check(server: Served) -> None:
    """Somebody else is served."""
    answer = httpx2.post(server.url, content=BODY, headers=headers("tools/call", "add"), timeout=LIMIT)
    assert answer.json()["result"]["content"][0]["text"] == "3"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, tools=TOOLS)


def configured(project: Path, text: str) -> Path:
    (project / "toolrun.toml").write_text(text)
    return project


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that waits for nobody."""
    with served(cwd=configured(write_project(tmp_path_factory.mktemp("quick"), tools=TOOLS), QUICK)) as server:
        yield server


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that waits for everybody."""
    with served(cwd=configured(write_project(tmp_path_factory.mktemp("patient"), tools=TOOLS), SLOW)) as server:
        yield server


def start_waiting(connection: socket.socket, path: Path) -> None:
    """A call that runs until its client leaves; returns once it runs."""
    body = json.dumps(request("tools/call", name="wait", arguments={"path": str(path)})).encode()
    connection.sendall(head(len(body), "wait") + b"\r\n" + body)
    give_up = monotonic() + LIMIT
    while not path.exists():  # another process writes it
        assert monotonic() < give_up
        sleep(0.01)


def connect(server: Served) -> socket.socket:
    return socket.create_connection(server.place, LIMIT)


@pytest.mark.parametrize(
    "sent",
    [b"P", b"POST /mcp HTTP/1.1\r\n", head(), head() + b"x-more: 1", b"\r\n", b"\r\n\r\n"],
    ids=["a letter", "a line", "all but the end", "half a header", "an empty line", "two"],
)
def test_a_head_that_does_not_end_is_answered_408_and_closed(sent: bytes, quick: Served) -> None:
    with connect(quick) as connection:
        connection.sendall(sent)
        assert status(everything(connection)) == 408
    check(quick)


@pytest.mark.parametrize(
    "sent",
    [head() + b"\r\n", head() + b"\r\n" + BODY[:-1], head(None) + b"\r\n", head(None) + b"\r\n1\r\n{\r\n"],
    ids=["none of it", "all but the end", "no chunk", "one chunk"],
)
def test_a_body_that_does_not_end_is_answered_408_and_closed(sent: bytes, quick: Served) -> None:
    with connect(quick) as connection:
        connection.sendall(sent)
        assert status(everything(connection)) == 408
    check(quick)
    assert [text for text in quick.log if "rror" in text or "Traceback" in text] == []


def test_a_connection_without_a_request_is_closed(quick: Served) -> None:
    with connect(quick) as silent, connect(quick) as served_once:
        served_once.sendall(head() + b"\r\n" + BODY)
        assert everything(silent) == b""
        assert status(everything(served_once)) == 200


def test_a_trickle_does_not_keep_a_request_open(quick: Served) -> None:
    with connect(quick) as connection:
        connection.sendall(head(1_000_000) + b"\r\n")
        connection.settimeout(0.02)
        answer = b""
        for _ in range(1000):  # a byte now and then, until the server has had enough
            try:
                connection.sendall(b" ")
                answer += connection.recv(65536)
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the server takes every byte")
        assert status(answer) in (408, 0)
    check(quick)


def test_a_call_may_take_longer_than_all_of_these(quick: Served, tmp_path: Path) -> None:
    with connect(quick) as call:
        start_waiting(call, tmp_path / "started")
        for _ in range(4):
            with connect(quick) as idle:
                assert everything(idle) == b""  # so long has the call taken
        assert is_open(call)


def is_open(connection: socket.socket) -> bool:
    """Whether the server has neither answered nor closed the connection."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    return False


def test_an_answer_that_nobody_reads_is_given_up(quick: Served) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(LIMIT)
        connection.connect(quick.place)
        body = json.dumps(request("tools/call", name="much", arguments={})).encode()
        connection.sendall(head(len(body), "much") + b"\r\n" + body)
        with connect(quick) as other:
            assert everything(other) == b""
        with connect(quick) as other:
            assert everything(other) == b""
        received = 0
        while received < 30_000_000:
            try:
                data = connection.recv(1 << 20)
            except ConnectionResetError:
                break
            if not data:
                break
            received += len(data)
        assert received < 30_000_000
    check(quick)


def flood(connection: socket.socket, unit: bytes, limit: int) -> int:
    """Send the same again and again, until the server closes the connection. Returns how much it took."""
    sent = 0
    try:
        while sent < limit:
            sent += connection.send(unit)
    except ConnectionError:
        pass
    return sent


@pytest.mark.parametrize(
    ("start", "unit"),
    [
        (head() + b"x-large: ", b"x" * 65536),
        (head(), b"x: " + b"y" * 1000 + b"\r\n"),
        (b"POST /", b"x" * 65536),
        (b"", b"\r\n" * 1000),
        (head(None) + b"\r\n1\r\n{\r\n0\r\n", b"x: " + b"y" * 1000 + b"\r\n"),
        (head(None) + b"\r\n1;x=", b"y" * 65536),
        (head(100_000_000, origin="http://evil.example") + b"\r\n", b"x" * 65536),
    ],
    ids=["one header", "many headers", "the path", "empty lines", "trailers", "an extension", "a refused body"],
)
def test_what_is_no_body_may_not_go_on_for_ever(start: bytes, unit: bytes, patient: Served) -> None:
    with connect(patient) as connection:
        connection.sendall(start)
        assert flood(connection, unit, 60_000_000) < 60_000_000
        assert status(everything(connection)) in (431, 400, 403, 0)
    check(patient)


@pytest.mark.parametrize("size", [10_000, 60_000, 70_000, 200_000, 400_000])
def test_a_head_is_limited_to_64_kilobytes(size: int, patient: Served) -> None:
    with connect(patient) as connection:
        large = b"x-large: " + b"y" * size + b"\r\n"
        connection.sendall(head(connection="close") + large + b"\r\n" + BODY)
        assert status(everything(connection)) == (200 if size < 64_000 else 431)


def test_a_large_body_does_not_count_as_a_head(patient: Served) -> None:
    body = BODY + b" " * 5_000_000
    with connect(patient) as connection:
        connection.sendall(head(len(body), connection="close") + b"\r\n" + body)
        assert status(everything(connection)) == 200


@pytest.mark.parametrize("sent", [b"", head()[:-2], head() + b"\r\n"], ids=["nothing", "half a head", "half a body"])
def test_300_connections_that_wait_do_not_stop_the_others(sent: bytes, project: Path) -> None:
    with served(cwd=configured(project, SLOW + "max_connections = 50\n")) as server, ExitStack() as stack:
        waiting = []
        for _ in range(300):
            connection = stack.enter_context(connect(server))
            connection.sendall(sent)
            waiting.append(connection)
            if len(waiting) % 100 == 0:
                check(server)
        for connection in waiting[:200]:  # those that have waited longest made room
            assert everything(connection) == b""
        waiting[-1].sendall((head() + b"\r\n" + BODY)[len(sent) :])
        assert waiting[-1].recv(65536).startswith(b"HTTP/1.1 200 ")


def test_300_half_heads_do_not_stop_the_others_with_the_settings_that_it_has(project: Path) -> None:
    with served(cwd=project) as server, ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(server)).sendall(head())
        check(server)


def test_calls_that_run_are_not_closed_for_new_connections(project: Path) -> None:
    with served(cwd=configured(project, SLOW + "max_connections = 4\n")) as server, ExitStack() as stack:
        running = [stack.enter_context(connect(server)) for _ in range(4)]
        for number, connection in enumerate(running):
            start_waiting(connection, project / f"started-{number}")
        with connect(server) as refused:
            answer = everything(refused)
        assert status(answer) == 503
        assert b"busy" in answer
        assert all(map(is_open, running))


def test_a_malformed_origin_and_doubled_headers_are_refused_over_the_wire(patient: Served) -> None:
    for more, expected in (
        (b"origin: http://[\r\n", 403),
        (b"host: localhost\r\n", 400),
        (b"origin: http://localhost\r\norigin: http://localhost\r\n", 400),
        (b"authorization: Bearer a\r\nauthorization: Bearer b\r\n", 400),
    ):
        with connect(patient) as connection:
            connection.sendall(head(connection="close") + more + b"\r\n" + BODY)
            assert status(everything(connection)) == expected
    assert [text for text in patient.log if "Traceback" in text] == []


def test_a_page_of_an_allowed_origin_is_served(project: Path) -> None:
    configured(project, '[serve]\nallow_origins = ["https://app.example"]\n')
    with served("--allow-origin", "http://localhost:5173", cwd=project) as server:
        for origin in ("https://app.example", "http://localhost:5173"):
            asked = {"origin": origin, "access-control-request-method": "POST"}
            question = httpx2.options(server.url, headers=asked, timeout=LIMIT)
            assert (question.status_code, question.headers["access-control-allow-origin"]) == (204, origin)
            own = {**headers("tools/call", "add"), "origin": origin}
            answer = httpx2.post(server.url, content=BODY, headers=own, timeout=LIMIT)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        other = httpx2.options(server.url, headers={**asked, "origin": "https://evil.example"}, timeout=LIMIT)
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


def test_it_says_the_name_version_and_instructions_of_the_configuration(project: Path) -> None:
    configured(project, '[serve]\nname = "house"\nversion = "2.1"\ninstructions = "Ask before you open a door."\n')
    with served(cwd=project) as server:
        own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        answer = httpx2.post(server.url, json=hello, headers=own, timeout=LIMIT).text
        greeting = json.loads(answer.partition("data: ")[2] or answer)["result"]
        assert greeting["serverInfo"] == {"name": "house", "version": "2.1"}
        assert greeting["instructions"] == "Ask before you open a door."
        discovered = httpx2.post(
            server.url, json=request("server/discover"), headers=headers("server/discover"), timeout=LIMIT
        ).text
        found = json.loads(discovered.partition("data: ")[2] or discovered)["result"]
        assert found["instructions"] == "Ask before you open a door."
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "house", "version": "2.1"}
        called = httpx2.post(server.url, content=BODY, headers=headers("tools/call", "add"), timeout=LIMIT).json()
        assert called["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "house"
