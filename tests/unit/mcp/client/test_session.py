"""The eras of the protocol, over a channel in memory; and what a server lists, read leniently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.memory_channel import MemoryChannel
from toolrun.mcp.client.channel import Channel
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, NotSentError, Result, RpcError
from toolrun.mcp.client.session import LEGACY, MODERN, Listed, Session, answer, read_tool

LIMIT = 30.0
TOOLS = [{"name": "add"}, {"name": "add", "title": "Again"}, {"name": 5}, {"name": "sub"}]


class Server:
    """Speaks one era or both."""

    def __init__(self, *versions: str) -> None:
        self.versions = versions

    def __call__(self, method: str, params: Mapping[str, Any]) -> Result:
        capabilities = {"tools": {"listChanged": True}}
        if method == "server/discover" and MODERN in self.versions:
            info = {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}}
            return {"supportedVersions": list(self.versions), "capabilities": capabilities, "_meta": info}
        if method == "initialize" and LEGACY[-1] in self.versions:
            server = {"name": "old", "version": "1"}
            return {"protocolVersion": LEGACY[-1], "capabilities": capabilities, "serverInfo": server}
        if method == "tools/list":
            start = int(params.get("cursor", 0))
            more = {"nextCursor": str(start + 2)} if start + 2 < len(TOOLS) else {}
            return {"tools": TOOLS[start : start + 2], **more}
        if method == "tools/call":
            return {"content": [], "got": dict(params)}
        raise RpcError(-32601, f"{method} is not known")


def session(channel: Channel) -> Session:
    return Session("s", channel)


async def test_a_server_of_the_newer_era_is_asked_no_further() -> None:
    channel = MemoryChannel(Server(MODERN, *LEGACY))
    ours = session(channel)
    await ours.negotiate(LIMIT, probe=True)
    assert [method for method, _ in channel.sent] == ["server/discover"]
    assert (ours.version, ours.info, ours.is_modern, ours.announces_changes) == (MODERN, "new 2", True, True)


@pytest.mark.parametrize(
    ("probe", "methods"),
    [
        (True, ["server/discover", "initialize", "notifications/initialized"]),
        (False, ["initialize", "notifications/initialized"]),
    ],
)
async def test_a_server_of_the_older_era_gets_the_handshake(probe: bool, methods: list[str]) -> None:
    channel = MemoryChannel(Server(*LEGACY))
    ours = session(channel)
    await ours.negotiate(LIMIT, probe=probe)
    assert [method for method, _ in channel.sent] == methods
    assert (ours.version, ours.info, ours.is_modern) == (LEGACY[-1], "old 1", False)


async def test_a_server_of_neither_era_is_refused() -> None:
    with pytest.raises(RpcError):
        await session(MemoryChannel(Server())).negotiate(LIMIT, probe=True)

    def odd(method: str, params: Mapping[str, Any]) -> Result:
        return {"protocolVersion": "1999-01-01"}

    with pytest.raises(BadAnswerError, match="1999-01-01"):
        await session(MemoryChannel(odd)).negotiate(LIMIT, probe=False)


@pytest.mark.parametrize(("version", "has_envelope"), [(MODERN, True), (LEGACY[-1], False)])
async def test_every_request_of_the_newer_era_says_who_asks(version: str, has_envelope: bool) -> None:
    channel = MemoryChannel(Server(version))
    ours = session(channel)
    await ours.negotiate(LIMIT, probe=True)
    result = await ours.call("add", {"a": 1}, None)
    await ours.list_tools()
    assert result["got"]["name"] == "add"
    assert result["got"]["arguments"] == {"a": 1}
    for method, params in channel.sent:
        if method in ("tools/call", "tools/list"):
            meta = (params or {}).get("_meta", {})
            assert (meta.get("io.modelcontextprotocol/protocolVersion") == MODERN) == has_envelope


async def test_all_pages_are_listed_and_of_two_tools_with_one_name_the_first_counts() -> None:
    ours = session(MemoryChannel(Server(MODERN)))
    await ours.negotiate(LIMIT, probe=True)
    listed = await ours.list_tools()
    assert [(it.name, it.title) for it in listed] == [("add", None), ("sub", None)]


async def test_nothing_is_sent_over_a_channel_that_is_lost() -> None:
    channel = MemoryChannel(Server(MODERN))
    channel.lose(LostError("it died"))
    with pytest.raises(NotSentError, match="it died"):
        await session(channel).negotiate(LIMIT, probe=True)
    assert channel.sent == []


def test_a_tool_has_what_is_listed_of_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    entry = {
        "name": "add",
        "title": "Add",
        "description": "Add numbers.",
        "inputSchema": schema,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "https://x.example/i.png"}],
        "_meta": {"x.example/kind": "sum"},
    }
    icons, meta = [{"src": "https://x.example/i.png"}], {"x.example/kind": "sum"}
    tool = Listed("add", "Add numbers.", schema, "Add", {"type": "object"}, {"readOnlyHint": True}, icons, meta)
    assert read_tool(entry, "s") == (tool, "")


@pytest.mark.parametrize(
    ("entry", "description"),
    [
        ({"description": "  "}, "The tool 'add' of the server 's'."),
        ({}, "The tool 'add' of the server 's'."),
        ({"title": "Add up"}, "Add up"),
        ({"annotations": {"title": "Add up"}}, "Add up"),
        ({"description": 5, "title": [], "annotations": 7, "outputSchema": "x"}, "The tool 'add' of the server 's'."),
    ],
)
def test_what_is_missing_is_made_up(entry: dict[str, object], description: str) -> None:
    tool, fault = read_tool({"name": "add", **entry}, "s")
    assert fault == ""
    assert tool is not None
    assert tool.description == description
    assert tool.schema == {"type": "object"}
    assert tool.output_schema is None


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "no description of a tool"),
        ([], "no description of a tool"),
        ({}, "no name"),
        ({"name": 5}, "no name"),
        ({"name": "x", "inputSchema": None}, "describes no object"),
        ({"name": "x", "inputSchema": {"type": ["object", "null"]}}, "describes no object"),
    ],
)
def test_what_is_no_tool_is_refused_with_the_reason(entry: object, words: str) -> None:
    tool, fault = read_tool(entry, "s")
    assert tool is None
    assert words in fault


def test_nothing_is_offered_to_servers_but_that_we_are_there() -> None:
    assert answer("ping", {}) == {}
    for method in ("sampling/createMessage", "elicitation/create", "roots/list", "what/ever"):
        with pytest.raises(RpcError):
            answer(method, {})
