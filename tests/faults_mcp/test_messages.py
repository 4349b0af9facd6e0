"""Servers that write what they should not: rubbish, endless lines, wrong ids, broken lists."""

from __future__ import annotations

from typing import Any

import pytest

from faults_mcp.bench import Servers
from toolrun import ErrorKind, SideEffects, ToolResult


def is_protocol_error(result: ToolResult) -> bool:
    return (result.error_kind, result.side_effects) == (ErrorKind.PROTOCOL, SideEffects.UNKNOWN)


@pytest.mark.parametrize(
    "rubbish",
    [
        "b'Connected to the broker\\n'",
        "b'\\n\\r\\n  \\n'",
        "b'{\"jsonrpc\": \\n'",
        "b'\\xff\\xfe\\x00\\n'",
        "b'[1, 2]\\n'",
        "b'\"text\"\\n'",
        "b'[' * 100_000 + b'\\n'",
        'b\'{"jsonrpc": "2.0", "id": 999999, "result": {}}\\n\'',
        'b\'{"jsonrpc": "2.0", "id": null, "result": {}}\\n\'',
        'b\'{"jsonrpc": "2.0", "id": {"a": 1}, "error": 5}\\n\'',
        'b\'{"jsonrpc": "2.0", "method": 5, "params": 6}\\n\'',
        'b\'{"method": "notifications/progress", "params": {"progressToken": [], "progress": {}}}\\n\'',
        "b'x' * 50_000_000 + b'\\n'",
    ],
    ids=lambda code: code[:40],
)
async def test_a_call_has_its_answer_after_rubbish(servers: Servers, rubbish: str) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        async with tools.bystander():
            result = await tools.run(f"write({rubbish}); answer = 'right'")
        assert result.result == "right"
        assert await tools.works() == pid


async def test_rubbish_is_logged_with_its_content(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    async with servers.open() as tools:
        await tools.run("write(b'Connected to the broker\\n')")
    assert "MCP server 'subject' wrote not JSON" in caplog.text
    assert "Connected to the broker" in caplog.text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('write(b\'{"jsonrpc":"2.0","id":%d,"result":"\' % number + b\'x\' * 50_000_000 + b\'"}\\n\')', "more than"),
        (
            'write(b\'{"result":{"content":"\' + b\'x\' * 50_000_000 + b\'"},"jsonrpc":"2.0","id":%d}\\n\' % number)',
            "more than",
        ),
        ('write(b\'{"jsonrpc":"2.0","id":%d,"result":{"n": nope}}\\n\' % number)', "not JSON"),
        ('write(b\'{"jsonrpc":"2.0","id":%d,"result":[]}\\n\' % number)', "neither a result nor an error"),
        ('write(b\'{"jsonrpc":"2.0","id":%d}\\n\' % number)', "neither a result nor an error"),
        ("say({'id': number, 'result': {}})", "content"),
        ("say({'id': number, 'result': {'content': 'text'}})", "content"),
    ],
    ids=["long, id first", "long, id last", "no value", "list", "nothing", "empty result", "no list"],
)
async def test_an_answer_that_is_none_costs_its_own_call(servers: Servers, code: str, words: str) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        result = await tools.fault(f"{code}; answer = None")
        assert is_protocol_error(result)
        assert words in result.text
        assert await tools.works() == pid


async def test_an_error_of_the_server_is_the_answer(servers: Servers) -> None:
    async with servers.open() as tools:
        result = await tools.fault("say({'id': number, 'error': {'code': -32000, 'message': 'no'}}); answer = None")
        assert (result.error, result.error_kind) == ("no", ErrorKind.TOOL_ERROR)
        result = await tools.fault("say({'id': number, 'error': {'code': 'x'}}); answer = None")
        assert result.error_kind is ErrorKind.TOOL_ERROR


async def test_an_answer_with_the_wrong_id_is_nobodys(servers: Servers) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        result = await tools.fault("say({'id': number + 1000, 'result': text('wrong')}); answer = None", timeout=0.3)
        assert result.error_kind is ErrorKind.TIMEOUT
        assert await tools.works() == pid


async def test_an_id_made_text_is_understood(servers: Servers) -> None:
    async with servers.open() as tools:
        result = await tools.run("say({'id': str(number), 'result': text('right')}); answer = None")
        assert result.result == "right"


async def test_two_answers_to_one_request_are_one(servers: Servers) -> None:
    async with servers.open() as tools:
        result = await tools.run("say({'id': number, 'result': text('first')}); answer = 'second'")
        assert result.result == "first"
        await tools.works()


async def test_a_flood_on_stderr_hangs_nobody(servers: Servers) -> None:
    async with servers.open() as tools:
        async with tools.bystander():
            result = await tools.run("for _ in range(200): sys.stderr.write('x' * 10_000 + '\\n'); sys.stderr.flush()")
        assert result.success
        await tools.works()


async def test_malformed_tools_cost_only_themselves(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    good = {"name": "good", "inputSchema": {}}
    servers.lists(
        "subject",
        5,
        {},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": "list", "inputSchema": ["a"]},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "bad_schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "nothing"}}}},
        {"name": "run", "inputSchema": {"type": "object"}},
        {**good, "description": 5, "annotations": [], "outputSchema": 7, "title": {}},
    )
    async with servers.open() as tools:
        names = {tool.name for tool in tools.runtime.manager}
        assert {name for name in names if "bystander" not in name} == {"subject__run", "subject__wait_for", "good"}
        assert (await tools.call("good")).result == "good {}"
        await tools.works()
    assert caplog.text.count("lists a tool that cannot be used") == 6
    assert "lists the tool 'run' twice" in caplog.text


async def test_pages_are_all_read_and_a_circle_of_them_ends(servers: Servers) -> None:
    servers.at_start(
        "subject",
        """
        _answer = answer
        def answer(message):
            if message["method"] != "tools/list":
                return _answer(message)
            page = int((message.get("params") or {}).get("cursor", 0))
            tool = {"name": f"tool_{page}", "inputSchema": {"type": "object"}}
            say({"id": message["id"], "result": {"tools": [tool], "nextCursor": str(min(page + 1, 3))}})
        """,
    )
    async with servers.open() as tools:
        names = [tool.name for tool in tools.runtime.manager if tool.name.startswith("tool_")]
        assert names == ["tool_0", "tool_1", "tool_2", "tool_3"]


async def test_what_a_server_asks_of_its_client_is_answered(servers: Servers) -> None:
    async with servers.open() as tools:
        await tools.run(
            """
            say({"id": "p", "method": "ping"})
            say({"id": "s", "method": "sampling/createMessage", "params": {}})
            """
        )
        await tools.works()  # the answers were sent before this was
        answers = {it["id"]: it for it in servers.received() if "method" not in it}
        assert answers["p"]["result"] == {}
        assert answers["s"]["error"] == {"code": -32601, "message": "toolrun does not support sampling/createMessage"}


async def test_a_failed_call_keeps_what_its_server_answered(servers: Servers) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///x", "name": "x", "_meta": {"x/size": 3}}
    content = [{"type": "text", "text": "full"}, image, link]
    result: dict[str, Any] = {"content": content, "structuredContent": {"free": 0}, "_meta": {"x/trace": "7"}}
    async with servers.open() as tools:
        for is_error in (True, False):
            said = {**result, "isError": is_error}
            answer = await tools.run(f"say({{'id': number, 'result': {said!r}}}); answer = None")
            assert answer.success is not is_error
            assert list(answer.content) == result["content"]
            assert answer.result == {"free": 0}
            assert answer.meta == {"x/trace": "7"}
            assert "full" in answer.text
            if is_error:
                assert answer.to_dict()["success"] is False
                assert "result" not in answer.to_dict()


async def test_slips_in_a_schema_cost_nothing_and_what_is_said_about_a_tool_is_kept(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    text = {"type": "string", "description": None}
    pair = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}
    schema = {"type": ["object"], "properties": {"a": text, "b": pair}, "required": None, "description": None}
    icons, meta = [{"src": "https://x.example/i.png"}], {"x/kind": "sum"}
    servers.lists("subject", {"name": "slips", "inputSchema": schema, "icons": icons, "_meta": meta})
    async with servers.open() as tools:
        tool: Any = tools.runtime.manager.get("slips")
        assert (tool.icons, tool.meta) == (icons, meta)
        assert (await tools.call("slips", a="x", b=[1, "y"])).result == 'slips {"a": "x", "b": [1, "y"]}'
        assert (await tools.call("slips", b=["y", 1])).error_kind is ErrorKind.INVALID_ARGUMENTS
    assert "cannot be used" not in caplog.text


BAD_TEXT = r"""{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\ud800"}]%s}}"""


async def test_a_result_with_what_json_cannot_hold_is_not_lost(servers: Servers) -> None:
    more = ',"structuredContent":{"n":NaN}'
    async with servers.open() as tools:
        code = f"write({BAD_TEXT!r}.encode() % (number, {more!r}.encode()) + b'\\n'); answer = None"
        result = await tools.run(code)
        assert (result.success, result.result) == (True, {"n": None})
        assert [it["text"] for it in result.content] == ["a\ufffd"]


async def test_one_bad_character_in_a_list_costs_no_tool(servers: Servers) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "default": float("nan")}}}
    servers.lists("subject", {"name": "odd", "description": "a\ud83d", "inputSchema": schema})
    async with servers.open() as tools:
        await tools.works()
        [odd] = [it for it in tools.runtime.manager if it.name == "odd"]
        assert odd.description == "a\ufffd"
