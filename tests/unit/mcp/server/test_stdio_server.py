"""Messages over pipes: cut, refused, written, held back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

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
