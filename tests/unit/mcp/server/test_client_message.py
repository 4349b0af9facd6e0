"""Messages of clients that have a key twice, or are large."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from toolrun.mcp.server import client_message
from toolrun.mcp.server.client_message import HeldArguments, RefusedError, check_keys, read_large

ROWS = list(range(100_000))


def checked(text: str) -> None:
    check_keys(text.encode(), json.loads(text))


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1,"a":2}',
        '{"a" : 1, "a" : 2}',
        '{"a"\n:1,"a"\r\n\t:"1"}',
        '{"x":{"a":[{"b":1,"b":null}]}}',
        '{"a":1,"\\u0061":2}',
        '{"text":"say \\"a\\": now","a":1,"a":true}',
        '{"a":{"b":1},"a":{"b":2}}',
        '{"a":1,"a":1.5,"url":"http://x:80/"}',
    ],
)
def test_a_key_that_is_sent_twice_with_different_values_is_refused(arguments: str) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t", "arguments": 0}})
    text = text.replace('"arguments": 0', f'"arguments": {arguments}')
    with pytest.raises(RefusedError, match="is sent twice, with different values: send it once") as refused:
        checked(text)
    assert (refused.value.answer["id"], refused.value.answer["error"]["code"]) == (7, -32602)  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}',
        '{"a":1,"a":1}',
        '{"a" : 1, "b": "x: y"}',
        '{"a":"\\":\\":","b":"http://x"}',
        '{"\\"":1}',
        "{}",
        '{"a":NaN}',
        '{"a":"\\":", "b":Infinity}',
    ],
)
def test_everything_else_is_not(text: str) -> None:
    checked(text)


def test_what_is_written_as_most_clients_do_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(client_message, "read_json", read.append)
    message = {"id": 1, "params": {"name": "t", "arguments": {"url": "http://x", "list": [{"a": 1}, {"a": 2}]}}}
    checked(json.dumps(message))
    checked(json.dumps(message, separators=(",", ":")))
    checked(json.dumps(message, indent=2))
    assert read == []


def call(**parts: Any) -> dict[str, Any]:
    params = {"name": "t", "arguments": {"rows": ROWS}, **parts.pop("params", {})}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **parts}


def test_a_large_call_is_read() -> None:
    assert read_large(json.dumps(call()).encode()) == call()
    text = call(params={"arguments": {"text": "x" * 600_000}})
    assert read_large(json.dumps(text).encode()) == text


@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        (json.dumps(call())[:-2], -32700, None),
        (json.dumps([call()]), -32600, None),
        (json.dumps(call(method="ping")), -32600, 7),
        (json.dumps(call(id=None)), -32600, None),
        (json.dumps(call(jsonrpc="1.0")), -32600, 7),
        (json.dumps(call(params={"arguments": ROWS})), -32600, 7),
        (json.dumps(call(params={"_meta": {"x": ROWS}})), -32600, 7),
        (json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"rows": ROWS}}), -32600, 7),
        (json.dumps(call())[:-3] + ',"rows":1}}}', -32602, 7),
    ],
    ids=["cut", "batch", "another method", "no id", "another version", "list", "meta", "answer", "key twice"],
)
def test_a_large_message_that_is_no_call_is_refused(data: str, code: int, number: int | None) -> None:
    with pytest.raises(RefusedError) as refused:
        read_large(data.encode())
    error: Any = refused.value.answer
    assert (error["id"], error["error"]["code"]) == (number, code)


def test_arguments_are_held_while_a_small_message_stands_for_them() -> None:
    held = HeldArguments()
    arguments = {
        "rows": ROWS,
        "short": "s",
        "long": "x" * 2_000,
        "in": {"n": 1, "rows": ROWS},
        "wide": dict.fromkeys(map(str, ROWS)),
    }
    with held.holding(call(params={"arguments": arguments})) as small:
        message = json.loads(small)
        stand_in = message["params"].pop("arguments")
        assert message == {**call(), "params": {"name": "t"}}
        assert {key: value for key, value in stand_in.items() if not key.startswith("toolrun.")} == {
            "short": "s",
            "in": {"n": 1},
        }
        assert held.real(stand_in) is arguments
        assert held.real({"a": 1}) == {"a": 1}
        assert held.real(None) is None
        assert HeldArguments().real(stand_in) == stand_in  # another server's
    with pytest.raises(MCPError, match="given up"):
        held.real(stand_in)
