"""Reading from servers whose sessions are in memory: who is asked, what is passed on, and what a failure becomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.memory_channel import MemoryChannel
from support.waiting import until
from toolrun.errors import SideEffects, UnavailableError
from toolrun.mcp.call_result import ForwardedError
from toolrun.mcp.client import resource_reader
from toolrun.mcp.client.http_error import HttpError
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, Result, RpcError
from toolrun.mcp.client.resource_reader import ResourceReader
from toolrun.mcp.client.session import Session, WantedUpdates


class Server:
    """Stands where a supervisor stands: a server with a session, or none."""

    def __init__(self, name: str, **capabilities: Any) -> None:
        self.name = name
        self.capabilities = {"resources": {}, **capabilities}
        self.session: Session | None = None
        self.first_attempts_over = asyncio.Event()
        self.channel = MemoryChannel(self.serve)
        self.wanted: list[str] = []
        self.error: Exception | None = None
        self.pages: dict[str, list[Any]] = {"resources": [], "resourceTemplates": []}
        self.on_updated: Any = None

    async def open(self) -> Server:
        session = Session(self.name, self.channel)
        await session.negotiate(None)
        self.session = session
        self.first_attempts_over.set()
        return self

    def serve(self, method: str, params: Mapping[str, Any]) -> Result | Awaitable[Result]:
        if method == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": self.capabilities}
        if self.error is not None:
            raise self.error
        if method == "resources/read":
            return {"contents": [{"uri": params["uri"], "text": self.name}]}
        key = {"resources/list": "resources", "resources/templates/list": "resourceTemplates"}[method]
        number = int(params.get("cursor", 0))
        pages = self.pages[key]
        more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
        return {key: pages[number] if pages else [], **more}

    async def connected(self) -> Session:
        if self.session is None:
            raise UnavailableError("not connected", side_effects=SideEffects.NOT_STARTED)
        return self.session

    async def subscribe(self, uri: str) -> None:
        await self.connected()
        if self.error is not None:
            raise self.error
        self.wanted.append(uri)

    def unsubscribe(self, uri: str) -> None:
        self.wanted.remove(uri)


def reader(*servers: Server) -> ResourceReader:
    return ResourceReader(servers)  # type: ignore[arg-type]  # what it needs of a supervisor


async def test_a_resource_is_read_from_the_server_that_is_named() -> None:
    both = reader(await Server("one").open(), await Server("two").open())
    assert (await both.read("two", "x:/"))["contents"] == [{"uri": "x:/", "text": "two"}]
    assert (await both.read("one", "x:/"))["contents"] == [{"uri": "x:/", "text": "one"}]
    with pytest.raises(ForwardedError, match="'three' is no longer configured") as unknown:
        await both.read("three", "x:/")
    assert unknown.value.code == -32603


@pytest.mark.parametrize(
    ("error", "code", "message", "data"),
    [
        (RpcError(-32002, "gone", {"uri": "x:/"}), -32002, "gone", {"uri": "x:/"}),
        (LostError("it died"), -32603, "The MCP server 'one' gave no answer: it died", None),
        (BadAnswerError("rubbish"), -32603, "The MCP server 'one' gave no answer: rubbish", None),
    ],
)
async def test_a_failure_is_passed_on(error: Exception, code: int, message: str, data: object) -> None:
    server = await Server("one", resources={"subscribe": True}).open()
    server.error = error
    ours = reader(server)
    for request in (ours.read("one", "x:/"), ours.subscribe("one", "x:/")):
        with pytest.raises(ForwardedError) as failed:
            await request
        assert (failed.value.code, failed.value.message, failed.value.data) == (code, message, data)


async def test_a_server_without_a_session_gives_no_answer() -> None:
    for request in (reader(Server("one")).read("one", "x:/"), reader(Server("one")).subscribe("one", "x:/")):
        with pytest.raises(ForwardedError, match="'one' gave no answer: not connected") as failed:
            await request
        assert failed.value.code == -32603


async def test_there_are_resources_if_a_server_has_them_or_may_have_them() -> None:
    has, lacks, connecting, failed = Server("a"), Server("b"), Server("c"), Server("d")
    del lacks.capabilities["resources"]
    failed.first_attempts_over.set()
    await has.open()
    await lacks.open()
    assert reader(lacks, has).has_resources
    assert reader(lacks, connecting).has_resources
    assert not reader(lacks, failed).has_resources
    assert not reader().has_resources


async def test_updates_are_announced_if_a_connected_server_says_so() -> None:
    announces, lacks = Server("a", resources={"subscribe": True}), Server("b", resources={"subscribe": False})
    assert not reader(announces).can_subscribe
    await announces.open()
    await lacks.open()
    assert reader(lacks, announces).can_subscribe
    assert not reader(lacks).can_subscribe
    both = reader(lacks, announces)
    await both.subscribe("a", "x:/1")
    await both.subscribe("a", "x:/2")
    both.unsubscribe("a", "x:/1")
    assert announces.wanted == ["x:/2"]
    with pytest.raises(ForwardedError, match="does not announce updates") as refused:
        await both.subscribe("b", "x:/1")
    assert refused.value.code == -32601
    told: list[tuple[str, str]] = []
    both.on_updated(lambda server, uri: told.append((server, uri)))
    lacks.on_updated("x:/3")
    announces.on_updated("x:/4")
    assert told == [("b", "x:/3"), ("a", "x:/4")]


@pytest.mark.parametrize(
    ("key", "method"), [("resources", "resources/list"), ("resourceTemplates", "resources/templates/list")]
)
async def test_all_pages_of_all_servers_are_listed_and_what_is_no_entry_is_left_out(key: str, method: str) -> None:
    one, two, without = Server("one"), Server("two"), Server("three")
    one.pages[key] = [[{"n": 1}, "rubbish"], "rubbish", [{"n": 2}]]
    two.pages[key] = [[{"n": 3}]]
    del without.capabilities["resources"]
    without.pages[key] = [[{"n": 4}]]
    every = reader(await one.open(), await two.open(), await without.open(), Server("four"))
    listing = every.list_resources() if key == "resources" else every.list_templates()
    assert await listing == [("one", {"n": 1}), ("one", {"n": 2}), ("two", {"n": 3})]
    assert [it for it, _ in one.channel.sent].count(method) == 3


async def test_what_models_read_of_a_resource_hides_nothing_and_has_a_limit() -> None:
    server = Server("one")
    listed = {"uri": "x:/\u200b", "name": "n\U000e0041", "title": "t\u202e", "description": "d\x1b[8m" + "d" * 20}
    server.pages["resources"] = server.pages["resourceTemplates"] = [[listed]]
    ours = ResourceReader([await server.open()], 10)  # type: ignore[list-item]  # what it needs of a supervisor
    for listing in (ours.list_resources(), ours.list_templates()):
        [(_, clean)] = await listing
        assert (clean["uri"], clean["name"], clean["title"]) == ("x:/\u200b", "n", "t")
        assert clean["description"] == "dddddd… (cut: 15 more characters)"


async def test_a_list_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_reader, "_MAX_PAGES", 5)
    server = Server("one")
    server.pages["resources"] = [[{"n": number}] for number in range(50)]
    assert len(await reader(await server.open()).list_resources()) == 5


@pytest.mark.parametrize("cursor", ["same", 5, None])
async def test_a_page_that_follows_itself_is_the_last(cursor: object) -> None:
    server = Server("one")
    server.channel = MemoryChannel(
        lambda method, params: (
            {"resources": [{"n": 1}], "nextCursor": cursor}
            if method == "resources/list"
            else server.serve(method, params)
        )
    )
    listed = await reader(await server.open()).list_resources()
    assert len(listed) == (2 if cursor == "same" else 1)


@pytest.mark.parametrize(("code", "is_logged"), [(-32601, False), (-32603, True)])
async def test_a_server_that_cannot_list_costs_only_its_own(
    code: int, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broken, works = await Server("broken").open(), Server("works")
    broken.error = RpcError(code, "no such thing")
    works.pages["resources"] = [[{"n": 1}]]
    with caplog.at_level(logging.WARNING):
        assert await reader(broken, await works.open()).list_resources() == [("works", {"n": 1})]
    assert ("'broken': resources/list failed: no such thing" in caplog.text) is is_logged


# What a session does for those who want updates.


@asynccontextmanager
async def watched(server: MemoryChannel, wanted: WantedUpdates, probe: float | None) -> AsyncIterator[Session]:
    session = Session("s", server)
    await session.negotiate(probe)
    watching = asyncio.create_task(session.watch(lambda: None, wanted))
    try:
        yield session
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def test_a_session_of_the_older_era_takes_over_what_was_wanted_of_the_one_before() -> None:
    def serve(method: str, params: Mapping[str, Any]) -> Result:
        if method == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": True}}}
        if params["uri"] == "x:/refused":
            raise RpcError(-32002, "gone")
        return {}

    def asked() -> list[tuple[str, str]]:
        return [(it.rpartition("/")[2], params["uri"]) for it, params in channel.sent[2:] if params is not None]

    channel, wanted = MemoryChannel(serve), WantedUpdates()
    wanted.add("x:/refused")
    wanted.add("x:/1")
    async with watched(channel, wanted, None) as session:
        await until(lambda: len(asked()) == 2)
        assert sorted(asked()) == [("subscribe", "x:/1"), ("subscribe", "x:/refused")]
        await session.subscribe("x:/2")
        wanted.add("x:/2")
        wanted.discard("x:/1")
        await until(lambda: len(asked()) == 4)
        assert asked()[2:] == [("subscribe", "x:/2"), ("unsubscribe", "x:/1")]


async def test_a_session_of_the_newer_era_listens_to_everything_on_one_stream() -> None:
    streams: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []

    async def stream(kinds: dict[str, Any]) -> Result:
        streams.append(kinds)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(kinds)
        return {}

    def serve(method: str, params: Mapping[str, Any]) -> Result | Awaitable[Result]:
        if method == "server/discover":
            capabilities = {"resources": {"subscribe": True}, "tools": {"listChanged": True}}
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        return stream(params["notifications"])

    wanted = WantedUpdates()
    async with watched(MemoryChannel(serve), wanted, 30):
        await until(lambda: len(streams) == 1)
        wanted.add("x:/2")
        wanted.add("x:/1")
        await until(lambda: len(ended) == 1)
        wanted.discard("x:/2")
        wanted.discard("x:/1")
        await until(lambda: len(ended) == 2)
        assert streams == [
            {"toolsListChanged": True},
            {"toolsListChanged": True, "resourceSubscriptions": ["x:/1", "x:/2"]},
            {"toolsListChanged": True},
        ]
    assert ended == streams


@pytest.mark.parametrize("rpc", [None, {"code": -32002, "message": "no such file", "data": {"uri": "x"}}])
@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 429, 500, 503])
async def test_a_failure_of_http_keeps_its_status_and_headers(status: int, rpc: dict[str, Any] | None) -> None:
    server = await Server("a").open()
    server.error = HttpError(status, "no such file", {"WWW-Authenticate": "Bearer", "Retry-After": "30"}, rpc)
    with pytest.raises(ForwardedError) as caught:
        await reader(server).read("a", "x")
    for part in (f"HTTP {status}", "WWW-Authenticate: Bearer", "Retry-After: 30", "no such file"):
        assert part in str(caught.value)
    assert (caught.value.code, caught.value.data) == (server.error.code, server.error.data)
