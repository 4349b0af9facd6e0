"""Large messages over HTTP are read in a thread; the SDK gets a small one instead, and small ones as they are."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import httpx2
import pytest

from toolrun.mcp.client import large_message
from toolrun.mcp.client.json_rpc import BadAnswerError, RpcError
from toolrun.mcp.client.large_message import Events, JsonText, LargeAnswers, WholeMessage, with_text, write_message

ROWS = list(range(200_000))
LIMIT = 3_000_000


class Chunks(httpx2.AsyncByteStream):
    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self._size = size
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data), self._size):
            yield self._data[start : start + self._size]

    async def aclose(self) -> None:
        self.is_closed = True


async def passed_on(stream: httpx2.AsyncByteStream) -> bytes:
    return b"".join([chunk async for chunk in stream])


async def events(data: bytes, answers: LargeAnswers, number: int | None = 7, size: int = 65_536) -> list[Any]:
    """What a reader of events makes of what is passed on."""
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        stream=Events(Chunks(data, size), answers, number, LIMIT),
        request=httpx2.Request("GET", "http://x"),
    )
    return [event async for event in httpx2.EventSource(response, max_event_size=LIMIT)]


@pytest.fixture
def answers() -> LargeAnswers:
    made = LargeAnswers()
    made.expect(7)
    return made


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which something was read."""
    seen: list[int] = []
    for name in ("loads", "loads_in_pieces"):
        real = getattr(large_message, name)

        def noting(data: bytes, real: Any = real) -> Any:
            seen.append(threading.get_ident())
            return real(data)

        monkeypatch.setattr(large_message, name, noting)
    return seen


def answer(**parts: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, **parts}).encode()


async def test_a_large_answer_is_read_in_a_thread_and_the_sdk_gets_an_empty_one(
    answers: LargeAnswers, threads: list[int]
) -> None:
    body = answer(result={"rows": ROWS})
    small = await passed_on(WholeMessage(Chunks(body, 65_536), answers, 7))
    assert json.loads(small) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert answers.get(7) == ({"rows": ROWS}, None)
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_a_small_answer_is_passed_on_as_it_is_and_nobody_reads_it(
    answers: LargeAnswers, threads: list[int]
) -> None:
    body = answer(result={"n": 1})
    assert await passed_on(WholeMessage(Chunks(body, 3), answers, 7)) == body
    assert threads == []
    for body in (b"not JSON", b"", b"[]", answer(result={}, id="7")):
        assert await passed_on(WholeMessage(Chunks(body, 3), answers, 7)) == body
    assert answers.get(7) is None


@pytest.mark.parametrize("message", [{"id": 8, "result": {}}, {"result": {}}, {"method": "x"}])
async def test_a_small_message_that_does_not_answer_its_request_is_a_bad_answer(
    answers: LargeAnswers, message: dict[str, Any]
) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    passed = await passed_on(WholeMessage(Chunks(body, 3), answers, 7))
    assert json.loads(passed) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    kept = answers.get(7)
    assert kept is not None
    assert isinstance(kept[1], BadAnswerError)


async def test_an_error_without_an_id_is_the_answer_to_the_request_that_it_came_for(answers: LargeAnswers) -> None:
    error = {"code": -32700, "message": "no"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    passed = await passed_on(WholeMessage(Chunks(body, 3), answers, 7))
    assert json.loads(passed) == {"jsonrpc": "2.0", "id": 7, "error": error}
    assert answers.get(7) is None


async def test_a_long_text_is_read_at_once(answers: LargeAnswers, threads: list[int]) -> None:
    await passed_on(WholeMessage(Chunks(answer(result={"text": "x" * 2_000_000}), 65_536), answers, 7))
    assert answers.get(7) == ({"text": "x" * 2_000_000}, None)
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (answer(error={"code": -5, "message": "no", "data": ROWS}), RpcError, "no"),
        (answer(rows=ROWS), BadAnswerError, "neither a result nor an error"),
        (answer(result={"rows": ROWS})[:-3], BadAnswerError, "not JSON"),
        (json.dumps(ROWS).encode(), BadAnswerError, "not a JSON-RPC message"),
    ],
    ids=["error", "neither", "cut", "list"],
)
@pytest.mark.parametrize("is_event", [False, True])
async def test_a_large_answer_that_is_no_result_is_the_failure_of_its_request(
    answers: LargeAnswers, body: bytes, kind: type[Exception], words: str, is_event: bool
) -> None:
    if is_event:
        [event] = await events(b"data: " + body + b"\n\n", answers)
        small = event.data
    else:
        small = await passed_on(WholeMessage(Chunks(body, 65_536), answers, 7))
    assert json.loads(small) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    value, error = answers.get(7) or (None, None)
    assert value is None
    assert isinstance(error, kind)
    assert words in str(error)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1021, 65_536])
async def test_a_large_event_keeps_its_id_and_those_around_it_are_passed_on_as_they_are(
    answers: LargeAnswers, threads: list[int], end: str, size: int
) -> None:
    large = answer(result={"rows": ROWS}).decode()
    half = large.index(",", len(large) // 2)
    lines = [
        *("data: one", ""),
        *(": a comment", ""),
        *("event: message", "id: 5", "retry: 9", f"data: {large[:half]}", f"data:{large[half:]}", ""),
        *("event: other", f"data: {'z' * 600_000}", ""),
        *("id: 6", "data: two", "data: three", ""),
    ]
    found = await events(end.join([*lines, ""]).encode(), answers, size=size)
    assert [(it.event, it.id, it.retry) for it in found] == [
        ("message", "", None),
        ("message", "5", 9),
        ("other", "5", None),
        ("message", "6", None),
    ]
    assert [found[0].data, found[2].data, found[3].data] == ["one", "z" * 600_000, "two\nthree"]
    assert json.loads(found[1].data) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert answers.get(7) == ({"rows": ROWS}, None)
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_the_answer_on_a_stream_of_nobody_is_for_the_request_that_it_names(answers: LargeAnswers) -> None:
    answers.expect("listen-1")
    data = b""
    for number in (7, "7", "listen-1", 8, None):
        data += b"data: " + answer(result={"rows": ROWS, "for": number}, id=number) + b"\n\n"
    found = await events(data, answers, None)
    assert [json.loads(it.data)["id"] for it in found] == [7, 7, "listen-1"]
    assert answers.get(7) == ({"rows": ROWS, "for": "7"}, None)
    assert answers.get("listen-1") == ({"rows": ROWS, "for": "listen-1"}, None)


async def test_nothing_is_kept_of_an_answer_that_nobody_waits_for_any_more(answers: LargeAnswers) -> None:
    answers.forget(7)
    small = await passed_on(WholeMessage(Chunks(answer(result={"rows": ROWS}), 65_536), answers, 7))
    assert json.loads(small)["result"] == {}
    assert answers.get(7) is None


async def test_of_a_large_notification_or_request_there_is_what_can_be_shown(answers: LargeAnswers) -> None:
    params = {"level": "info", "data": "x" * 600_000, "n": 1, "rows": ROWS}
    notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params})
    found = await events(f"data: {notification}\n\ndata: {request}\n\n".encode(), answers)
    first, second = (json.loads(it.data) for it in found)
    assert (first["method"], second["method"], second["id"]) == ("notifications/message", "sampling/createMessage", 1)
    assert first["params"] == second["params"] == {"level": "info", "data": "x" * 10_000, "n": 1}
    assert answers.get(7) is None


async def test_an_event_beyond_the_limit_is_refused_while_it_arrives(answers: LargeAnswers) -> None:
    with pytest.raises(httpx2.SSEError, match="3000000 byte limit"):
        await events(b"data: " + b"1," * LIMIT, answers)


async def test_an_event_that_has_not_ended_is_passed_on_when_the_next_chunk_ends_it(answers: LargeAnswers) -> None:
    source = Chunks(b"data: one\n\ndata: two\n\ndata: th", 8)
    stream = Events(source, answers, 7, LIMIT)
    assert [chunk async for chunk in stream] == [b"data: one\n\n", b"data: two\n\n", b"data: th"]
    await stream.aclose()
    assert source.is_closed


@pytest.mark.parametrize(
    "params",
    [{"name": "t", "arguments": {"a": [1, "é"]}, "_meta": {"k": 1}}, {"arguments": {}}, {"name": "t"}, {}],
    ids=str,
)
def test_arguments_are_written_once_and_sent_as_they_were(params: Mapping[str, Any]) -> None:
    message = {"jsonrpc": "2.0", "method": "tools/call", "params": with_text(params), "id": 3}
    assert json.loads(write_message(message)) == {**message, "params": params}


def test_the_text_of_arguments_is_not_shown() -> None:
    text = with_text({"arguments": {"secret": "x" * 100}})["arguments"]
    assert isinstance(text, JsonText)
    assert "x" not in repr(text)


def test_a_message_without_params_is_written_as_it_is() -> None:
    messages: Iterable[dict[str, Any]] = ({"method": "ping", "id": 1}, {"id": 2, "result": {}}, {"params": None})
    for message in messages:
        assert json.loads(write_message(message)) == message
