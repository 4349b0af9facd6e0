"""Which answer belongs to which request, without a process: what is sent is kept, what arrives is made up."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, cast

import pytest

from toolrun.execution.body import Outcome
from toolrun.mcp.client.json_rpc import BadAnswerError, JsonRpc, LostError, NotSentError, Params, Result, RpcError
from toolrun.mcp.client.session import answer
from toolrun.result import Large
from toolrun.tools.context import Progress


class Wire:
    """The other end."""

    def __init__(self, limit: int = 1000) -> None:
        self.sent: list[dict[str, Any]] = []
        self.notified: list[tuple[str, Params]] = []
        self.rpc = JsonRpc(
            "test", self._keep, answer, lambda method, params: self.notified.append((method, params)), limit
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


@pytest.mark.parametrize("said", [None, 5, ["no"], ""])
async def test_an_error_without_a_text_has_none(wire: Wire, said: object) -> None:
    task = await begun(wire.rpc.request("a"))
    wire.arrives(id=1, error={"code": -5, "message": said})
    with pytest.raises(RpcError) as raised:
        await task
    assert (raised.value.code, raised.value.message) == (-5, "")


async def test_what_a_server_says_instead_of_an_error_is_told(wire: Wire) -> None:
    task = await begun(wire.rpc.request("a"))
    wire.arrives(id=1, error="the disk is full")
    with pytest.raises(BadAnswerError, match="the disk is full"):
        await task


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
    wire.rpc.lose(LostError("it died", "last output"))
    for task in tasks:
        with pytest.raises(LostError, match="it died"):
            await task
    with pytest.raises(NotSentError) as raised:
        await wire.rpc.request("b")
    assert raised.value.tail == "last output"
    assert len(wire.sent) == 2


async def test_what_an_answer_means_is_for_the_caller_to_say(wire: Wire) -> None:
    def read(result: Result | None, error: Exception | None) -> Outcome:
        return None, LookupError(f"odd: {result}, {error}")

    first = wire.rpc.submit("a", {}, read=read)
    second = wire.rpc.submit("a", {})
    data = b"".join(json.dumps({"id": it.id, "result": {}}).encode() + b"\n" for it in (first, second))
    wire.rpc.received(data)
    assert str((await first.outcome)[1]) == "odd: {}, None"
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


LARGE = {"rows": [{"n": number, "text": "a,b"} for number in range(40_000)]}
"""About a megabyte of JSON."""


@pytest.fixture
def wide() -> Wire:
    return Wire(16_000_000)


async def test_a_large_answer_is_read_elsewhere_and_a_small_one_behind_it_does_not_wait(wide: Wire) -> None:
    large = wide.rpc.submit("a", None)
    small = wide.rpc.submit("b", None)
    wide.arrives(id=large.id, result=LARGE)
    assert not large.outcome.done()
    wide.arrives(id=small.id, result={"n": 1})
    assert small.outcome.result() == ({"n": 1}, None)
    assert not large.outcome.done()
    assert await asyncio.wait_for(large.outcome, 30) == (LARGE, None)
    assert wide.rpc.heard == 2


async def test_what_a_large_answer_means_is_found_out_in_the_thread_that_reads_it(wide: Wire) -> None:
    threads: list[int] = []

    def read(result: Result | None, error: Exception | None) -> Outcome:
        threads.append(threading.get_ident())
        assert result is not None
        return result["rows"], None

    pending = wide.rpc.submit("a", None, read)
    wide.arrives(id=pending.id, result=LARGE)
    assert await asyncio.wait_for(pending.outcome, 30) == (Large(cast(Any, LARGE["rows"])), None)
    assert threads != [threading.get_ident()]


async def test_a_server_that_has_sent_a_large_answer_may_be_lost_before_it_is_read(wide: Wire) -> None:
    pending = wide.rpc.submit("a", None)
    wide.arrives(id=pending.id, result=LARGE)
    wide.rpc.lose(LostError("gone"))
    assert await asyncio.wait_for(pending.outcome, 30) == (LARGE, None)


async def test_a_call_that_is_given_up_while_its_large_answer_is_read_is_not_cancelled_at_the_server(
    wide: Wire,
) -> None:
    pending = wide.rpc.submit("a", None)
    ended: list[str] = []
    pending.on_end = lambda: ended.append("end")
    wide.arrives(id=pending.id, result=LARGE)
    pending.give_up()
    assert ended == ["end"]
    assert [message["method"] for message in wide.sent] == ["a"]
    await asyncio.wait_for(pending.outcome, 30)
    assert ended == ["end"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"jsonrpc":"2.0","id":%d,"result":{"rows":[' + "1," * 400_000, "its answer was not JSON"),
        ('{"jsonrpc":"2.0","id":%d,"result":{"rows":[' + "1," * 400_000 + '1]},"id":77}', "its answer had two ids"),
        ('{"jsonrpc":"2.0","id":%d,"result":[' + "1," * 400_000 + "1]}", "neither a result nor an error"),
        ('{"result":[' + "1," * 400_000 + '1],"id":%d}', "neither a result nor an error"),
    ],
    ids=["cut", "two ids", "list", "id last"],
)
async def test_a_large_answer_that_is_none_ends_its_request_only(wide: Wire, line: str, reason: str) -> None:
    pending, other = wide.rpc.submit("a", None), wide.rpc.submit("b", None)
    wide.rpc.received((line % cast(int, pending.id)).encode() + b"\n")
    value, error = await asyncio.wait_for(pending.outcome, 30)
    assert value is None
    assert isinstance(error, BadAnswerError)
    assert reason in str(error)
    wide.arrives(id=other.id, result={})
    assert other.outcome.result() == ({}, None)


async def test_a_large_error_and_a_large_notification_arrive_as_small_ones_do(wide: Wire) -> None:
    pending = wide.rpc.submit("a", None)
    wide.arrives(method="notifications/message", params=LARGE)
    wide.arrives(id=pending.id, error={"code": -5, "message": "no", "data": LARGE})
    value, error = await asyncio.wait_for(pending.outcome, 30)
    assert value is None
    assert isinstance(error, RpcError)
    assert (error.code, error.message, error.data) == (-5, "no", LARGE)
    async with asyncio.timeout(30):
        while not wide.notified:  # noqa: ASYNC110  the loop has to turn
            await asyncio.sleep(0)
    assert wide.notified == [("notifications/message", LARGE)]
