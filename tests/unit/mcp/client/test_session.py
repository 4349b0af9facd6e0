"""The eras of the protocol, over a channel in memory; and what a server lists, read leniently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest

from support.memory_channel import MemoryChannel
from toolrun.mcp.client.channel import Channel
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, NotSentError, Result, RpcError
from toolrun.mcp.client.session import LEGACY, MODERN, ListedTool, Session, answer, read_tool

PATIENT = 30.0
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


def methods(channel: MemoryChannel) -> list[str]:
    return [method for method, _ in channel.sent]


def session(channel: Channel) -> Session:
    return Session("s", channel)


async def test_a_server_that_is_known_to_speak_the_newer_era_is_asked_no_further() -> None:
    channel = MemoryChannel(Server(MODERN, *LEGACY))
    ours = session(channel)
    await ours.negotiate(PATIENT)
    assert methods(channel) == ["server/discover"]
    assert (ours.version, ours.info, ours.is_modern, ours.announces_changes) == (MODERN, "new 2", True, True)
    assert ours.speaks_modern


@pytest.mark.parametrize(
    ("patience", "sent"),
    [
        (PATIENT, ["server/discover", "initialize", "notifications/initialized"]),
        (0, ["server/discover", "initialize", "notifications/initialized"]),
        (None, ["initialize", "notifications/initialized"]),
    ],
)
async def test_a_server_of_the_older_era_gets_the_handshake(patience: float | None, sent: list[str]) -> None:
    channel = MemoryChannel(Server(*LEGACY))
    ours = session(channel)
    await ours.negotiate(patience)
    assert methods(channel) == sent
    assert (ours.version, ours.info, ours.is_modern) == (LEGACY[-1], "old 1", False)
    assert not ours.speaks_modern


class Awkward:
    """Both eras, each answered in its own way: at once, never, or when the other question is there."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.handshake, self.discovered = asyncio.Event(), asyncio.Event()
        self.both = Server(MODERN, *LEGACY)

    def __call__(self, method: str, params: Mapping[str, Any]) -> Result | Awaitable[Result]:
        how = self.answers.get(method.rpartition("/")[2], "")
        if method == "initialize":
            self.handshake.set()
        if how == "never":
            return self.later(asyncio.Event(), method, params)
        if how == "after the handshake":
            return self.later(self.handshake, method, params)
        if how == "after discover":
            return self.later(self.discovered, method, params)
        if how.startswith("error"):
            raise RpcError(int(how.split()[1]), "no")
        return self.both(method, params)

    async def later(self, event: asyncio.Event, method: str, params: Mapping[str, Any]) -> Result:
        await event.wait()
        if method == "server/discover":
            self.discovered.set()
        return self.both(method, params)


@pytest.mark.parametrize(
    ("answers", "version", "speaks_modern"),
    [
        ({"discover": "never"}, LEGACY[-1], False),
        ({"discover": "error -32601"}, LEGACY[-1], False),
        ({"discover": "after the handshake", "initialize": "after discover"}, LEGACY[-1], True),
        ({"discover": "after the handshake", "initialize": "error -32022"}, MODERN, True),
        ({"discover": "after the handshake", "initialize": "error -32601"}, MODERN, True),
        ({"discover": "after the handshake", "initialize": "never"}, MODERN, True),
    ],
    ids=str,
)
async def test_a_server_of_unknown_era_is_asked_in_both_ways_at_once(
    answers: dict[str, str], version: str, speaks_modern: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 0.01 if answers.get("initialize") == "never" else PATIENT
    monkeypatch.setattr("toolrun.mcp.client.session._SECOND_ANSWER", limit)
    channel = MemoryChannel(Awkward(**answers))
    ours = session(channel)
    async with asyncio.timeout(PATIENT):
        await ours.negotiate(0)
    assert methods(channel)[:2] == ["server/discover", "initialize"]
    assert methods(channel)[2:] == (["notifications/initialized"] if version != MODERN else [])
    assert (ours.version, ours.speaks_modern) == (version, speaks_modern)
    has_envelope = "_meta" in (await ours.call(ours.call_params("add", {}, ""), None))["got"]
    assert has_envelope is (version == MODERN)


@pytest.mark.parametrize(
    ("answers", "version"),
    [
        ({}, MODERN),
        ({"discover": "after the handshake", "initialize": "after discover"}, MODERN),
        ({"initialize": "never"}, MODERN),
        ({"discover": "after the handshake", "initialize": "error -32601"}, MODERN),
        ({"discover": "error -32601"}, LEGACY[-1]),
    ],
    ids=str,
)
async def test_where_neither_question_depends_on_the_other_the_newer_era_is_spoken_if_there_is_one(
    answers: dict[str, str], version: str
) -> None:
    channel = MemoryChannel(Awkward(**answers))
    ours = session(channel)
    async with asyncio.timeout(PATIENT):
        await ours.negotiate(0, is_stateless=True)
    assert "server/discover" in methods(channel)
    assert (ours.version, ours.speaks_modern) == (version, version == MODERN)


async def test_an_answer_for_the_newer_era_has_as_long_as_the_handshake_took_and_no_longer() -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    server = Awkward(discover="never", initialize="after discover")
    channel = MemoryChannel(server)
    ours = session(channel)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: now)
        negotiating = asyncio.create_task(ours.negotiate(0, is_stateless=True))
        await server.handshake.wait()
        now += 7  # the handshake takes so long
        server.discovered.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not negotiating.done()
        now += 7
        await negotiating
    assert (ours.version, ours.speaks_modern) == (LEGACY[-1], False)


async def test_a_server_that_refuses_the_handshake_and_ignores_the_other_question_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolrun.mcp.client.session._SECOND_ANSWER", 0.01)
    channel = MemoryChannel(Awkward(discover="never", initialize="error -32000"))
    with pytest.raises(RpcError) as refused:
        await session(channel).negotiate(0)
    assert refused.value.code == -32000


@pytest.mark.parametrize("code", [-32022, -32601])
async def test_a_server_that_is_known_to_speak_the_older_era_and_refuses_it_is_asked_again(code: int) -> None:
    channel = MemoryChannel(Awkward(initialize=f"error {code}"))
    ours = session(channel)
    await ours.negotiate(None)
    assert methods(channel) == ["initialize", "server/discover"]
    assert ours.version == MODERN
    with pytest.raises(RpcError) as refused:
        await session(MemoryChannel(Awkward(initialize=f"error {code}", discover="error -32000"))).negotiate(None)
    assert refused.value.code == code


async def test_a_server_of_neither_era_is_refused() -> None:
    with pytest.raises(RpcError):
        await session(MemoryChannel(Server())).negotiate(PATIENT)

    def odd(method: str, params: Mapping[str, Any]) -> Result:
        return {"protocolVersion": "1999-01-01"}

    with pytest.raises(BadAnswerError, match="1999-01-01"):
        await session(MemoryChannel(odd)).negotiate(None)


@pytest.mark.parametrize(("version", "has_envelope"), [(MODERN, True), (LEGACY[-1], False)])
async def test_every_request_of_the_newer_era_says_who_asks(version: str, has_envelope: bool) -> None:
    channel = MemoryChannel(Server(version))
    ours = session(channel)
    await ours.negotiate(PATIENT)
    result = await ours.call(ours.call_params("add", {"a": 1}, ""), None)
    await ours.list_tools()
    assert result["got"]["name"] == "add"
    assert result["got"]["arguments"] == {"a": 1}
    for method, params in channel.sent:
        if method in ("tools/call", "tools/list"):
            meta = (params or {}).get("_meta", {})
            assert (meta.get("io.modelcontextprotocol/protocolVersion") == MODERN) == has_envelope


async def test_all_pages_are_listed_and_of_two_tools_with_one_name_the_first_counts() -> None:
    ours = session(MemoryChannel(Server(MODERN)))
    await ours.negotiate(PATIENT)
    listed = await ours.list_tools()
    assert [(it.name, it.title) for it in listed] == [("add", None), ("sub", None)]


async def test_nothing_is_sent_over_a_channel_that_is_lost() -> None:
    channel = MemoryChannel(Server(MODERN))
    channel.lose(LostError("it died"))
    with pytest.raises(NotSentError, match="it died"):
        await session(channel).negotiate(PATIENT)
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
    tool = ListedTool("add", "Add numbers.", schema, "Add", {"type": "object"}, {"readOnlyHint": True}, icons, meta)
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


@pytest.mark.parametrize("schema", [None, [], {}, {"type": None}, {"type": ["object", "null"]}, {"properties": []}])
def test_a_schema_that_says_nothing_is_one_without_parameters(schema: object) -> None:
    tool, fault = read_tool({"name": "x", "inputSchema": schema}, "s")
    assert fault == ""
    assert tool is not None
    assert not tool.schema.pop("properties", {})
    assert tool.schema == {"type": "object"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "is not a tool definition"),
        ([], "is not a tool definition"),
        ({}, "no name"),
        ({"name": 5}, "no name"),
        ({"name": "x", "inputSchema": "none"}, "does not describe an object"),
        ({"name": "x", "inputSchema": {"type": ["object", "string"]}}, "does not describe an object"),
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
