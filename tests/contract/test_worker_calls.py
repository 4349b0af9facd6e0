"""Every request that a worker is sent gets one answer, in strict JSON, whatever the tool does. Real processes.

The tests run twice: in this environment, which has orjson, and with `-S`, where there is only the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.worker_process import STANDARD_LIBRARY_ONLY, WEATHER, WorkerProcess, worker_of


@pytest.fixture(params=[(), STANDARD_LIBRARY_ONLY], ids=["with orjson", "standard library"])
def worker(request: pytest.FixtureRequest) -> Iterator[WorkerProcess]:
    with worker_of(WEATHER, python=request.param) as worker:
        yield worker


def test_a_call_is_answered_with_exactly_the_keys_of_the_contract(worker: WorkerProcess) -> None:
    worker.request(7, "add", kwargs={"a": 1})
    assert worker.receive() == {"id": 7, "result": 3, "error": None}


def test_arguments_arrive_as_the_annotated_types(worker: WorkerProcess) -> None:
    point = {"x": 1, "when": "2025-01-02"}
    assert worker.call("move", point=point, colour="red") == ["Point", point, "red"]


@pytest.mark.parametrize(
    ("kind", "raised", "message"),
    [
        (
            "refused",
            ["errno.ECONNREFUSED", "builtins.ConnectionRefusedError", "builtins.ConnectionError", "builtins.OSError"],
            "[Errno 111] refused",
        ),
        ("exit", ["builtins.SystemExit"], "3"),
        ("quit", ["builtins.SystemExit"], "0"),
        ("interrupt", ["builtins.KeyboardInterrupt"], "KeyboardInterrupt"),
        ("empty", ["builtins.ValueError", "builtins.Exception"], "ValueError"),
        ("key", ["builtins.KeyError", "builtins.LookupError", "builtins.Exception"], "'a'"),
        ("bad", ["builtins.ValueError", "builtins.Exception"], "�x"),
        ("base", ["builtins.BaseException"], "low"),
        ("loud", ["weather.Loud", "builtins.Exception"], "Loud"),
    ],
)
def test_whatever_a_tool_raises_is_an_answer(worker: WorkerProcess, kind: str, raised: list[str], message: str) -> None:
    worker.request(3, "fail", kwargs={"kind": kind})
    found = worker.failure()
    assert found[0][: len(raised)] == raised
    assert found[1] == message
    assert worker.call("add", a=1) == 3


def test_the_traceback_of_a_failure_is_a_record_in_the_log(worker: WorkerProcess) -> None:
    worker.request(3, "fail", kwargs={"kind": "key"})
    worker.failure()
    (record,) = [json.loads(line) for line in worker.end()[1].splitlines()]
    assert (record["level"], record["fields"]) == ("debug", {"function": "fail"})
    assert record["message"] == "'a'"
    assert "weather.py" in record["traceback"]
    assert "serve.py" not in record["traceback"]


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("nan", [None, None, 1.5]),
        ("cycle", [1, "…"]),
        ("surrogate", "a�b"),
        ("set", [1, 2]),
        ("bytes", ["text", "data:application/octet-stream;base64,/w=="]),
        ("point", {"x": 1, "when": "2024-05-01"}),
        ("date", "2024-05-01T00:00:00"),
        ("colour", ["red"]),
        ("path", "/etc"),
        ("decimal", ["0.10", 7, None]),
        ("delta", 90.0),
        ("keys", {"1": "a", "null": "b", "red": "c", "(1, 2)": "d"}),
        ("big", 2**80),
        ("huge", hex(10**5000)),
        ("unspeakable", ["<Unspeakable>"]),
        ("object", True),
        ("nested", {"a": [{"b": {"2": {"x": 3, "when": "2024-05-01"}}}]}),
        ("tuple", [1, [2]]),
        ("class", "<class 'int'>"),
    ],
)
def test_every_result_is_strict_json(worker: WorkerProcess, kind: str, result: object) -> None:
    assert worker.call("add", a=1) == 3  # orjson is used after the first answer
    assert worker.call("odd", kind=kind) == result


def test_integers_beyond_64_bits_arrive_and_return_as_they_are(worker: WorkerProcess) -> None:
    for _ in range(2):
        assert worker.call("add", a=2**70, b=1) == 2**70 + 1


def test_ten_megabytes_go_both_ways(worker: WorkerProcess) -> None:
    value = "ä" * 5_000_000
    for _ in range(2):
        assert worker.call("echo", value=value) == value


def test_requests_may_come_in_any_pieces(worker: WorkerProcess) -> None:
    request = b'{"id":%d,"function":"echo","kwargs":{"value":"\xc3\xa4"},"config":{},"secrets":{}}\n'
    for byte in request % 1:
        worker.send(bytes([byte]))
    assert worker.answer() == {"id": 1, "result": "ä", "error": None}
    worker.send(request % 2 + request % 3 + (request % 4)[:20])
    assert [worker.answer()["id"], worker.answer()["id"]] == [2, 3]
    worker.send((request % 4)[20:] + b"\n\r\n" + request % 5)
    assert [worker.answer()["id"], worker.answer()["id"]] == [4, 5]


@pytest.mark.parametrize(
    ("line", "raised", "message"),
    [
        (b'{"id":7,"function":"gone","kwargs":{}}', "toolrun.UnknownFunction", "there is no function 'gone'"),
        (b'{"id":7,"function":"Colour","kwargs":{}}', "toolrun.UnknownFunction", "there is no function 'Colour'"),
        (b'{"id":7}', "toolrun.InvalidRequest", "a request without a function"),
        (b'{"id":7,"function":"add","kwargs":[1]}', "toolrun.InvalidRequest", "a request whose kwargs are no object"),
        (b'{"id":7,"function":"add","kwargs":{"a":\xff}}', "toolrun.InvalidRequest", "a request that cannot be read"),
        (b'{"id": 7, "function":"add"', "toolrun.InvalidRequest", "a request that cannot be read"),
        (b'{"id":7,"function":"echo","kwargs":{"value":NaN}}', "toolrun.InvalidRequest", "a request that cannot"),
        (b'{"id":7,"function":"echo","kwargs":{"value":' + b"[" * 100_000, "toolrun.InvalidRequest", "a request that"),
        (b'{"id":7,"function":"add","kwargs":{}}', "toolrun.InvalidArguments", "Invalid parameters: missing 'a'"),
        (
            b'{"id":7,"function":"add","kwargs":{"a":"x"}}',
            "toolrun.InvalidArguments",
            "Invalid parameters: 'a' must be",
        ),
        (
            b'{"id":7,"function":"add","kwargs":{"a":1,"z":2}}',
            "toolrun.InvalidArguments",
            "Invalid parameters: unknown",
        ),
    ],
    ids=lambda it: str(it)[:40],
)
def test_a_request_that_is_refused_says_so_under_its_id(
    worker: WorkerProcess, line: bytes, raised: str, message: str
) -> None:
    worker.send(line + b"\n")
    found = worker.failure()
    assert found[0] == [raised]
    assert found[1].startswith(message)
    assert worker.call("add", a=1) == 3


@pytest.mark.parametrize(
    "line",
    [b"rubbish", b"\xff\xfe", b"[1]", b"7", b'{"id":"x"}', b'{"id":true}', b'{"function":"add"}', b"{}{}"],
)
def test_a_line_without_an_id_is_only_logged(worker: WorkerProcess, line: bytes) -> None:
    worker.send(line + b"\n")
    assert worker.call("add", a=1) == 3
    (record,) = [json.loads(line) for line in worker.end()[1].splitlines()]
    assert record["level"] == "warning"
    assert record["message"].startswith("the worker was sent a request")


def test_a_cancellation_that_comes_too_late_is_ignored(worker: WorkerProcess) -> None:
    worker.send(b'{"id":1,"cancel":true}\n')
    assert worker.call("add", a=1) == 3
