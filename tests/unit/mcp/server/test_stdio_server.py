"""Messages over pipes: cut, refused, written, held back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

from toolrun.json_pieces import loads_in_pieces
from toolrun.mcp.server import client_message
from toolrun.mcp.server import stdio_server as stdio
from toolrun.mcp.server.stdio_server import Incoming, Outgoing

LIMIT = 30.0


class Pipes:
    """Both ends of both pipes."""

    def __init__(self) -> None:
        self.incoming, self.client_out = os.pipe()
        self.client_in, self.outgoing = os.pipe()

    def close(self) -> None:
        for descriptor in (self.incoming, self.client_out, self.client_in, self.outgoing):
            with contextlib.suppress(OSError):  # a test closed it
                os.close(descriptor)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    made.close()


def answers(pipes: Pipes) -> list[Any]:
    return [json.loads(line) for line in os.read(pipes.client_in, 1 << 16).splitlines()]


async def received(reader: Incoming) -> Any:
    item = await asyncio.wait_for(reader.receive(), LIMIT)
    assert isinstance(item, SessionMessage)
    return item.message


async def test_messages_are_read_line_by_line(pipes: Pipes) -> None:
    reader = Incoming(pipes.incoming, Outgoing(pipes.outgoing))
    os.write(pipes.client_out, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n\n{"jsonrpc":"2.0","me')
    assert (await received(reader)).id == 1
    os.write(pipes.client_out, b'thod":"x"}\n{"jsonrpc":"2.0","id":"b","method":"last"}')
    assert (await received(reader)).method == "x"
    os.close(pipes.client_out)
    assert (await received(reader)).method == "last"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"rubbish", -32700),
        (b'{"jsonrpc":', -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"id": 1}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b"5", -32600),
    ],
)
async def test_what_is_no_message_is_answered_and_the_next_one_read(line: bytes, code: int, pipes: Pipes) -> None:
    reader = Incoming(pipes.incoming, Outgoing(pipes.outgoing))
    writing = asyncio.create_task(
        asyncio.to_thread(os.write, pipes.client_out, line + b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    )
    assert (await received(reader)).method == "ping"
    await writing
    [answer] = answers(pipes)
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", None, code)
    reader.stop()


async def test_a_line_that_is_too_long_is_refused_without_being_kept(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 1000)
    reader = Incoming(pipes.incoming, Outgoing(pipes.outgoing))
    os.write(pipes.client_out, b"x" * 5000 + b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert (await received(reader)).method == "ping"
    [answer] = answers(pipes)
    assert "a line of more than 1,000 bytes" in answer["error"]["message"]
    reader.stop()


ROWS = list(range(150_000))
PING = b'{"jsonrpc":"2.0","id":9,"method":"ping"}\n'


def large_call(**parts: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {"rows": ROWS}}}
    return json.dumps({**message, **parts}).encode() + b"\n"


def _write(descriptor: int, data: bytes, *, is_last: bool = False) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
    if is_last:
        os.close(descriptor)


async def test_a_large_call_is_read_in_a_thread_and_what_follows_it_stays_behind_it(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def noting(data: bytes) -> Any:
        threads.append(threading.get_ident())
        return loads_in_pieces(data)

    monkeypatch.setattr(client_message, "loads_in_pieces", noting)
    writer = Outgoing(pipes.outgoing)
    reader = Incoming(pipes.incoming, writer)
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n'
    data = PING + large_call() + cancel + large_call(id=2)
    writing = asyncio.create_task(asyncio.to_thread(_write, pipes.client_out, data, is_last=True))
    found = [await received(reader) for _ in range(4)]
    assert [it.method for it in found] == ["ping", "tools/call", "notifications/cancelled", "tools/call"]
    assert [found[1].id, found[3].id] == [1, 2]
    assert found[1].params == found[3].params == {"name": "t", "arguments": {"rows": ROWS}}
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert writer.open_requests == {9, 2}
    await writing
    for number in (9, 2):
        await writer.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={})))
    with pytest.raises(anyio.EndOfStream):
        await received(reader)
    writer.stop()


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (large_call(method="other"), -32600, 1),
        (large_call()[:-5] + b"\n", -32700, None),
        (large_call()[:-4] + b',"rows":0}}}\n', -32602, 1),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"a":2}}}\n',
            -32602,
            1,
        ),
    ],
    ids=["another method", "cut", "a key twice", "a key twice, small"],
)
async def test_a_line_that_is_refused_is_answered_and_the_next_one_read(
    pipes: Pipes, line: bytes, code: int, number: int | None
) -> None:
    writer = Outgoing(pipes.outgoing)
    reader = Incoming(pipes.incoming, writer)
    writing = asyncio.create_task(asyncio.to_thread(_write, pipes.client_out, line + PING))
    assert (await received(reader)).method == "ping"
    await writing
    [answer] = answers(pipes)
    assert (answer["id"], answer["error"]["code"]) == (number, code)
    assert writer.open_requests == {9}
    reader.stop()


REQUEST = b'{"jsonrpc":"2.0","id":%s,"method":"%s"}\n'


@pytest.mark.parametrize("method", [b"ping", b"subscriptions/listen"])
async def test_an_id_is_refused_while_its_request_is_not_answered_and_free_afterwards(
    pipes: Pipes, method: bytes
) -> None:
    writer = Outgoing(pipes.outgoing)
    reader = Incoming(pipes.incoming, writer)
    os.write(
        pipes.client_out, REQUEST % (b"7", method) + REQUEST % (b"7", b"tools/call") + REQUEST % (b'"7"', b"other")
    )
    assert [(await received(reader)).method for _ in range(2)] == [method.decode(), "other"]
    [refused] = answers(pipes)  # without the id: it would be taken for the answer to the first
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert "the request with the id 7 is not answered yet" in refused["error"]["message"]
    await writer.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result={})))
    os.write(pipes.client_out, REQUEST % (b"7", b"again"))
    assert (await received(reader)).method == "again"
    reader.stop()


@pytest.mark.parametrize("given_up", [b"7", b'"7"'])
async def test_the_id_of_a_request_that_was_cancelled_is_free(pipes: Pipes, given_up: bytes) -> None:
    writer = Outgoing(pipes.outgoing)
    reader = Incoming(pipes.incoming, writer)
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}\n' % given_up
    os.write(pipes.client_out, REQUEST % (b"7", b"one") + cancel + REQUEST % (b"7", b"two"))
    assert [(await received(reader)).method for _ in range(3)] == ["one", "notifications/cancelled", "two"]
    reader.stop()


async def test_the_end_waits_for_answers_that_are_under_way(pipes: Pipes) -> None:
    writer = Outgoing(pipes.outgoing)
    reader = Incoming(pipes.incoming, writer)
    os.write(pipes.client_out, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    os.close(pipes.client_out)
    await received(reader)
    end = asyncio.create_task(reader.receive())
    await asyncio.sleep(0)
    assert not end.done()
    await writer.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
    with pytest.raises(anyio.EndOfStream):
        await asyncio.wait_for(end, LIMIT)
    assert answers(pipes) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


async def test_a_client_that_does_not_read_holds_back_only_its_answers(pipes: Pipes) -> None:
    writer = Outgoing(pipes.outgoing)
    sent = 0

    async def flood() -> None:
        nonlocal sent
        while True:
            await writer.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=sent, result={"text": "x" * 100_000})))
            sent += 1

    flooding = asyncio.create_task(flood())
    for _ in range(1000):  # the loop goes on turning
        await asyncio.sleep(0)
    stuck = sent
    assert 1 <= stuck < 30
    reading = asyncio.create_task(asyncio.to_thread(_read, pipes.client_in, 5_000_000))
    data = await asyncio.wait_for(reading, LIMIT)
    assert sent > stuck
    assert [json.loads(line)["id"] for line in data.split(b"\n")[:-1]] == list(range(data.count(b"\n")))
    flooding.cancel()
    await asyncio.wait([flooding])
    writer.stop()


def _read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, 1 << 16)
    return data


async def test_a_client_that_has_gone_is_the_end(pipes: Pipes) -> None:
    writer = Outgoing(pipes.outgoing)
    reader = Incoming(pipes.incoming, writer)
    end = asyncio.create_task(reader.receive())
    await asyncio.sleep(0)
    os.close(pipes.client_in)
    message = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress"))
    await writer.send(message)
    with pytest.raises(anyio.EndOfStream):
        await asyncio.wait_for(end, LIMIT)
    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(message)
    reader.stop()


async def test_numbers_of_any_size_can_be_written(pipes: Pipes) -> None:
    writer = Outgoing(pipes.outgoing)
    await writer.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={"n": 10**30})))
    assert answers(pipes) == [{"jsonrpc": "2.0", "id": 1, "result": {"n": 10**30}}]
