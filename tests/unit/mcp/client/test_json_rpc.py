"""Which answer belongs to which request, without a process: what is sent is kept, what arrives is made up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from toolrun.mcp.client.json_rpc import BadAnswerError, JsonRpc, LostError, NotSentError, Params, Result, RpcError
from toolrun.mcp.client.session import answer
from toolrun.tools.context import Progress


class Wire:
    """The other end."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.notified: list[tuple[str, Params]] = []
        self.rpc = JsonRpc(
            "test", self._keep, answer, lambda method, params: self.notified.append((method, params)), 1000
        )

    def _keep(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        self.sent.append(json.loads(data))

    def arrives(self, **message: Any) -> None:
        self.rpc.received(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def begun(coroutine: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    return task


async def test_answers_find_their_requests_in_any_order(wire: Wire) -> None:
    tasks = [await begun(wire.rpc.request("a", {"n": number})) for number in range(3)]
    assert [message["params"]["n"] for message in wire.sent] == [0, 1, 2]
    for message in reversed(wire.sent):
        wire.arrives(id=message["id"], result={"n": message["params"]["n"]})
    assert [await task for task in tasks] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_a_request_without_params_has_none(wire: Wire) -> None:
    task = await begun(wire.rpc.request("ping"))
    assert wire.sent == [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]
    wire.arrives(id=1, result={})
    assert await task == {}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"error": {"code": -5, "message": "no", "data": [1]}}, RpcError),
        ({"error": {"code": None}}, RpcError),
        ({"error": "no"}, BadAnswerError),
        ({"result": None}, BadAnswerError),
        ({}, BadAnswerError),
    ],
)
async def test_what_is_no_result_is_an_error(wire: Wire, message: Result, error: type[Exception]) -> None:
    task = await begun(wire.rpc.request("a"))
    wire.arrives(id=1, **message)
    with pytest.raises(error):
        await task


async def test_an_error_has_its_parts(wire: Wire) -> None:
    task = await begun(wire.rpc.request("a"))
    wire.arrives(id=1, error={"code": -5, "message": "no", "data": [1]})
    with pytest.raises(RpcError) as raised:
        await task
    assert (raised.value.code, raised.value.message, raised.value.data) == (-5, "no", [1])


async def test_a_request_that_is_cancelled_is_told_and_its_answer_is_nobodys(wire: Wire) -> None:
    told: list[bool] = []
    wire.rpc.on_cancelled = lambda: told.append(True)
    task = await begun(wire.rpc.request("a"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert wire.sent[1]["method"] == "notifications/cancelled"
    assert wire.sent[1]["params"]["requestId"] == 1
    assert "id" not in wire.sent[1]
    assert told == [True]
    wire.arrives(id=1, result={})
    assert wire.rpc.heard == 1


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_the_handshake_is_not_cancelled(wire: Wire, method: str) -> None:
    task = await begun(wire.rpc.request(method))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(wire.sent) == 1


async def test_a_call_that_has_its_answer_is_not_cancelled_any_more(wire: Wire) -> None:
    pending = wire.rpc.submit("tools/call", {})
    wire.arrives(id=pending.id, result={})
    pending.give_up()
    assert len(wire.sent) == 1


async def test_the_end_of_the_connection_ends_all_requests(wire: Wire) -> None:
    tasks = [await begun(wire.rpc.request("a")) for _ in range(2)]
    wire.rpc.lose(LostError("it died", "last words"))
    for task in tasks:
        with pytest.raises(LostError, match="it died"):
            await task
    with pytest.raises(NotSentError) as raised:
        await wire.rpc.request("b")
    assert raised.value.tail == "last words"
    assert len(wire.sent) == 2


async def test_what_reads_an_answer_may_fail_without_harm(wire: Wire) -> None:
    def read(result: Result | None, error: Exception | None) -> object:
        raise LookupError("odd")

    first = wire.rpc.submit("a", {}, read=read)
    second = wire.rpc.submit("a", {})
    data = b"".join(json.dumps({"id": it.id, "result": {}}).encode() + b"\n" for it in (first, second))
    wire.rpc.received(data)
    assert isinstance((await first.outcome)[1], LookupError)
    assert await second.outcome == ({}, None)


async def test_progress_goes_to_its_call_and_keeps_what_else_the_request_says(wire: Wire) -> None:
    seen: list[Progress] = []
    pending = wire.rpc.submit("a", {"_meta": {"x": 1}, "name": "n"}, on_progress=seen.append)
    assert wire.sent[0]["params"] == {"_meta": {"x": 1, "progressToken": pending.id}, "name": "n"}
    wire.arrives(method="notifications/progress", params={"progressToken": pending.id, "progress": 1, "total": 4})
    wire.arrives(method="notifications/progress", params={"progressToken": pending.id, "progress": "much"})
    wire.arrives(method="notifications/progress", params={"progressToken": 99, "progress": 1})
    assert seen == [Progress(1, 4)]
    assert wire.notified == []


async def test_the_end_is_told_once(wire: Wire) -> None:
    ends: list[bool] = []
    pending = wire.rpc.submit("a", {})
    pending.on_end = lambda: ends.append(True)
    wire.arrives(id=pending.id, result={})
    pending.give_up()
    assert ends == [True]


async def test_requests_of_the_server_are_answered(wire: Wire) -> None:
    wire.arrives(id="x", method="ping")
    wire.arrives(id=0, method="elicitation/create", params=None)
    assert wire.sent[0] == {"jsonrpc": "2.0", "id": "x", "result": {}}
    assert wire.sent[1]["error"]["code"] == -32601


async def test_other_notifications_are_passed_on(wire: Wire) -> None:
    wire.arrives(method="notifications/tools/list_changed")
    wire.arrives(method="notifications/message", params={"level": "info"})
    assert wire.notified == [("notifications/tools/list_changed", {}), ("notifications/message", {"level": "info"})]
