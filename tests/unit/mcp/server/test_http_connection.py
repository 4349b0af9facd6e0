"""One HTTP connection with a clock and a transport of the test: what is refused, and when."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from toolrun.config.model import ServeSettings
from toolrun.mcp.server import http_connection
from toolrun.mcp.server.http_connection import Connection, HttpState, most_connections, sweep

SETTINGS = ServeSettings(head_timeout=10, body_timeout=20, idle_timeout=60, max_head_kb=1)
HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"


class Transport(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread = 0
        self.ending = ""

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.ending = self.ending or "closed"

    def abort(self) -> None:
        self.ending = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ending)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    @property
    def status(self) -> int | None:
        return int(self.written.split()[1]) if self.written else None


class Bench:
    """Connections of one server, whose application answers when it is told to."""

    def __init__(self, clock: Callable[[float], None]) -> None:
        self.to = clock
        self.answers = asyncio.Event()
        self.reads_body = True
        self.server = ServerState()
        self.config = uvicorn.Config(
            self.app, interface="asgi3", lifespan="off", log_config=None, access_log=False, ws="none"
        )
        self.config.load()

    async def app(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        while self.reads_body and (await receive()).get("more_body"):
            pass
        await self.answers.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def connect(self, most: int = 10) -> tuple[Connection, Transport]:
        connection = Connection(SETTINGS, most, config=self.config, server_state=self.server, app_state={})
        transport = Transport()
        connection.connection_made(transport)
        return connection, transport

    async def close(self) -> None:
        self.answers.set()
        for task in list(self.server.tasks):
            with contextlib.suppress(asyncio.CancelledError):
                task.cancel()
                await task


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [0.0]
    monkeypatch.setattr(http_connection, "monotonic", lambda: now[0])

    def to(seconds: float) -> None:
        now[0] = seconds

    return to


@pytest.fixture
async def bench(clock: Callable[[float], None]) -> Any:
    bench = Bench(clock)
    yield bench
    await bench.close()


async def answered(connection: Connection) -> None:
    while not connection.cycle.response_complete:  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(0)


@pytest.mark.parametrize(("size", "status"), [(1000, None), (1001, 431)])
async def test_a_head_that_grows_beyond_the_limit_is_refused(bench: Bench, size: int, status: int | None) -> None:
    connection, transport = bench.connect()
    connection.data_received(HEAD)
    connection.data_received(b"x-long: ")
    connection.data_received(b"y" * (size - len(HEAD) - len(b"x-long: ")))
    assert transport.status == status
    assert bool(transport.ending) is (status is not None)
    if status is not None:
        assert b"too large" in transport.written


@pytest.mark.parametrize(("size", "status"), [(600, None), (1100, 431)])
async def test_a_head_that_comes_at_once_with_its_body_is_measured_alone(
    bench: Bench, size: int, status: int | None
) -> None:
    connection, transport = bench.connect()
    head = b"POST / HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * size + b"\r\ncontent-length: 5000\r\n\r\n"
    connection.data_received(head + b"z" * 5000)
    assert transport.status == status
    assert (connection.state is HttpState.RUNNING) is (status is None)


async def test_what_is_no_request_is_refused_as_such(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(b"\x16\x03\x01 nonsense\r\n\r\n")
    assert transport.status == 400
    assert transport.ending == "closed"


async def test_a_body_that_somebody_reads_has_no_limit_here_and_one_that_nobody_reads_has(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(POST % 1_000_000)
    for _ in range(100):
        connection.data_received(b"z" * 900)
        connection.data_received(b"z" * 900)
    assert (transport.ending, connection.state) == ("", HttpState.BODY)
    bench.reads_body = False
    bench.answers.set()
    other, transport = bench.connect()
    other.data_received(POST % 1_000_000)
    await answered(other)
    transport.ending = ""  # uvicorn closes a connection whose request was not read to its end
    other.data_received(b"z" * 1000)
    assert transport.ending == ""
    other.data_received(b"z")
    assert transport.ending == "closed"


@pytest.mark.parametrize(
    ("sent", "limit", "status"),
    [
        (b"", SETTINGS.idle_timeout, None),
        (b"G", SETTINGS.head_timeout, 408),
        (HEAD, SETTINGS.head_timeout, 408),
        (POST % 100_000, SETTINGS.body_timeout, 408),
        (POST % 100_000 + b"z" * 32_000, SETTINGS.body_timeout + 1, 408),
        (POST % 100_000 + b"z" * 64_000, SETTINGS.body_timeout + 2, 408),
    ],
    ids=["nothing", "a byte", "half a head", "no body", "a part of a body", "more of it"],
)
async def test_a_client_that_is_too_slow_is_closed(bench: Bench, sent: bytes, limit: float, status: int | None) -> None:
    bench.to(100)
    connection, transport = bench.connect()
    if sent:
        bench.to(130)
        connection.data_received(sent)
    began = 130 if sent else 100
    connection.check(began + limit)
    assert (transport.ending, transport.status) == ("", None)
    connection.check(began + limit + 0.1)
    assert (transport.ending, transport.status) == ("closed", status)
    written = transport.written
    connection.check(began + 2 * limit + 10)
    assert transport.written == written, "it is told once"


async def test_the_time_for_a_head_begins_with_its_first_byte_and_that_for_the_body_with_the_end_of_the_head(
    bench: Bench,
) -> None:
    connection, transport = bench.connect()
    bench.to(50)
    connection.data_received(b"POST / HT")
    bench.to(59)
    connection.data_received(b"TP/1.1\r\nhost: x\r\n")
    connection.check(60)
    assert transport.ending == ""
    bench.to(60)
    connection.data_received(b"content-length: 9\r\n\r\n")
    connection.check(80)
    assert (transport.ending, connection.state) == ("", HttpState.BODY)
    connection.check(80.1)
    assert transport.status == 408


async def test_a_body_that_we_do_not_read_is_not_the_clients_fault(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(POST % 1000)
    connection.flow.read_paused = True
    connection.check(1000)
    connection.flow.read_paused = False
    connection.check(1000 + SETTINGS.body_timeout)
    assert transport.ending == ""
    connection.check(1000 + SETTINGS.body_timeout + 0.1)
    assert transport.status == 408


async def test_a_request_that_is_being_answered_has_all_the_time_and_then_the_connection_is_idle(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(HEAD + b"\r\n")
    connection.check(1_000_000)
    assert (transport.ending, connection.is_running) == ("", True)
    bench.answers.set()
    await answered(connection)
    assert not connection.is_running
    connection.check(1_000_001)
    connection.check(1_000_001 + SETTINGS.idle_timeout)
    assert transport.ending == ""
    connection.check(1_000_001 + SETTINGS.idle_timeout + 0.1)
    assert transport.ending == "closed"
    assert transport.written.count(b"HTTP/1.1") == 1


async def test_a_second_request_has_its_own_times(bench: Bench) -> None:
    connection, transport = bench.connect()
    bench.answers.set()
    connection.data_received(HEAD + b"\r\n")
    await answered(connection)
    bench.to(500)
    connection.data_received(HEAD)
    assert connection.state is HttpState.HEAD
    connection.check(510)
    assert transport.ending == ""
    connection.check(510.1)
    assert b"408" in transport.written


async def test_an_answer_that_nobody_reads_ends_the_connection(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(HEAD + b"\r\n")
    transport.unread = 5000
    connection.check(1)
    transport.unread = 4000
    connection.check(50)
    connection.check(50 + SETTINGS.idle_timeout)
    assert transport.ending == "", "it has read something"
    transport.unread = 4500
    connection.check(50 + SETTINGS.idle_timeout + 0.1)
    assert transport.ending == "aborted", "more to read is not progress"


async def test_an_answer_that_is_read_ends_nothing(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(HEAD + b"\r\n")
    for second in range(0, 600, 10):
        transport.unread = 0 if second % 20 else 5000
        connection.check(second)
    assert transport.ending == ""


async def test_at_the_limit_the_one_that_has_waited_longest_makes_room(bench: Bench) -> None:
    running, running_transport = bench.connect(3)
    running.data_received(HEAD + b"\r\n")
    bench.to(1)
    _, longest = bench.connect(3)
    bench.to(2)
    _, shorter = bench.connect(3)
    assert (longest.ending, shorter.ending) == ("", "")
    bench.to(3)
    _, new = bench.connect(3)
    assert (running_transport.ending, longest.ending, shorter.ending, new.ending) == ("", "aborted", "", "")
    assert len(bench.server.connections) == 3


async def test_if_all_are_busy_a_new_one_is_refused(bench: Bench) -> None:
    running, transport = bench.connect(1)
    running.data_received(HEAD + b"\r\n")
    connection, refused = bench.connect(1)
    connection.connection_lost(None)  # as the event loop does after a close
    assert (refused.status, refused.ending, transport.ending) == (503, "closed", "")
    assert b"busy" in refused.written
    bench.answers.set()
    await answered(running)
    _, new = bench.connect(1)
    assert (new.ending, transport.ending) == ("", "aborted")


async def test_a_request_whose_answer_has_begun_gets_no_second_one(bench: Bench) -> None:
    connection, transport = bench.connect()
    bench.reads_body = False
    connection.data_received(POST % 1000)
    connection.cycle.response_started = True
    connection.check(SETTINGS.body_timeout + 0.1)
    assert (transport.written, transport.ending) == (b"", "closed")


async def test_the_sweep_checks_all_connections_again_and_again() -> None:
    class Checked:
        def __init__(self) -> None:
            self.times: list[float] = []
            self.twice = asyncio.Event()

        def check(self, now: float) -> None:
            self.times.append(now)
            if len(self.times) == 2:
                self.twice.set()

    connections = [Checked(), Checked()]
    sweeping = asyncio.create_task(sweep(connections, ServeSettings(head_timeout=0.01)))
    async with asyncio.timeout(30):
        for connection in connections:
            await connection.twice.wait()
    sweeping.cancel()
    assert connections[0].times[0] < connections[0].times[1]


@pytest.mark.parametrize(
    ("settings", "pause"),
    [
        (ServeSettings(head_timeout=2, body_timeout=30, idle_timeout=30), 0.5),
        (ServeSettings(head_timeout=30, body_timeout=2, idle_timeout=30), 0.5),
        (ServeSettings(head_timeout=30, body_timeout=30, idle_timeout=2), 0.5),
        (ServeSettings(head_timeout=30, body_timeout=30, idle_timeout=30), 1.0),
        (ServeSettings(head_timeout=0.001, body_timeout=30, idle_timeout=30), 0.02),
    ],
)
async def test_the_sweep_comes_often_enough_for_the_shortest_limit(
    settings: ServeSettings, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await sweep([], settings)
    assert slept == [pause]


@pytest.mark.parametrize(
    ("files", "wanted", "most"), [(100, 512, 50), (2000, 512, 512), (resource.RLIM_INFINITY, 5000, 5000), (100, 50, 50)]
)
def test_connections_take_at_most_half_of_the_files(
    files: int, wanted: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, files))
    assert most_connections(ServeSettings(max_connections=wanted)) == most
