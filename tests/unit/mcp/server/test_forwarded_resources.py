"""Which resources of other servers a client may read, and from whom they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from toolrun.mcp.call_result import ForwardedError
from toolrun.mcp.server.forwarded_resources import ForwardedResources
from toolrun.mcp.server.tool_list import ServedTool


class Servers:
    """Two servers with one text each, of which they say who was asked."""

    has_resources = True
    can_subscribe = False

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.listed: list[tuple[str, dict[str, Any]]] = []
        self.templates: list[tuple[str, dict[str, Any]]] = []
        self.answer: dict[str, Any] = {"contents": [{"uri": "x:/", "text": "x"}], "ttlMs": 5, "_meta": {"a": 1}}
        self.error: ForwardedError | None = None
        self.is_silent = False

    async def read(self, server: str, uri: str) -> dict[str, Any]:
        self.asked.append((server, uri))
        if self.is_silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.answer

    async def list_resources(self) -> list[tuple[str, dict[str, Any]]]:
        return self.listed

    async def list_templates(self) -> list[tuple[str, dict[str, Any]]]:
        if self.is_silent:
            await asyncio.Event().wait()
        return self.templates

    async def subscribe(self, server: str, uri: str) -> None:
        raise NotImplementedError

    def unsubscribe(self, server: str, uri: str) -> None:
        raise NotImplementedError

    def on_updated(self, tell: Callable[[str, str], None]) -> None:
        raise NotImplementedError


def link(uri: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "a link"}


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def resources(servers: Servers) -> ForwardedResources:
    return ForwardedResources(servers, list, 30)


async def test_a_link_is_read_from_the_server_that_gave_it(servers: Servers, resources: ForwardedResources) -> None:
    resources.note("one", [link("x:/1"), {"type": "resource", "resource": {"uri": "x:/2", "text": "t"}}])
    resources.note("two", [{"type": "text", "text": "x:/3"}, link("x:/4")])
    for server, uri in (("one", "x:/1"), ("one", "x:/2"), ("two", "x:/4")):
        assert await resources.read(uri, True) == {"contents": servers.answer["contents"], "_meta": {"a": 1}}
        assert servers.asked.pop() == (server, uri)


@pytest.mark.parametrize(("is_modern", "code"), [(True, -32602), (False, -32002)])
async def test_what_nobody_named_is_not_asked_for(
    is_modern: bool, code: int, servers: Servers, resources: ForwardedResources
) -> None:
    resources.note("one", [link("x:/1")])
    with pytest.raises(MCPError) as refused:
        await resources.read("x:/2", is_modern)
    assert (refused.value.error.code, refused.value.error.data) == (code, {"uri": "x:/2"})
    assert servers.asked == []


async def test_the_server_that_linked_last_is_asked(servers: Servers, resources: ForwardedResources) -> None:
    resources.note("one", [link("x:/1")])
    resources.note("two", [link("x:/1")])
    await resources.read("x:/1", True)
    assert servers.asked == [("two", "x:/1")]


async def test_what_is_listed_can_be_read_and_does_not_take_over_a_link(
    servers: Servers, resources: ForwardedResources
) -> None:
    resources.note("one", [link("x:/1")])
    servers.listed = [
        ("two", {"uri": "x:/1"}),
        ("two", {"uri": "x:/2", "size": 1}),
        ("one", {"uri": "x:/2"}),
        ("one", {}),
    ]
    await resources.read("x:/2", True)
    assert await resources.list_all() == [{"uri": "x:/1"}, {"uri": "x:/2", "size": 1}]
    await resources.read("x:/1", True)
    assert servers.asked == [("two", "x:/2"), ("one", "x:/1")]


async def test_what_a_tool_names_can_be_read(servers: Servers) -> None:
    definition = {"_meta": {"ui": {"resourceUri": "ui://\u00e4"}}}
    own = ServedTool("own", 0, {"_meta": {"ui": "x:/1"}}, {}, None, None)
    resources = ForwardedResources(servers, lambda: [own, ServedTool("t", 1, definition, {}, None, None, "one")], 30)
    await resources.read("ui://\u00e4", True)
    assert servers.asked == [("one", "ui://\u00e4")]
    for uri in ("ui://", "x:/1"):  # a part of it, and what a tool of ours names
        with pytest.raises(MCPError):
            await resources.read(uri, True)


async def test_links_are_remembered_up_to_a_limit(servers: Servers, resources: ForwardedResources) -> None:
    resources.note("one", [link("x:/first"), link("x:/second")])
    resources.note("one", [link(f"x:/{number}") for number in range(9_998)])
    resources.note("one", [link("x:/first"), link("x:/new")])  # linked again, so not the oldest any more
    resources.note("one", [link("x:/" + "x" * 5_000), link("x:/newer")])
    for uri in ("x:/first", "x:/new", "x:/newer", "x:/9997"):
        await resources.read(uri, True)
    for uri in ("x:/second", "x:/0", "x:/" + "x" * 5_000):
        with pytest.raises(MCPError, match="Resource not found"):
            await resources.read(uri, True)


async def test_the_error_of_a_server_is_passed_on(servers: Servers, resources: ForwardedResources) -> None:
    resources.note("one", [link("x:/1")])
    servers.error = ForwardedError(-32042, "gone", {"since": "yesterday"})
    with pytest.raises(MCPError) as failed:
        await resources.read("x:/1", True)
    error = failed.value.error
    assert (error.code, error.message, error.data) == (-32042, "gone", {"since": "yesterday"})


async def test_an_answer_without_contents_is_an_error(servers: Servers, resources: ForwardedResources) -> None:
    resources.note("one", [link("x:/1")])
    servers.answer = {"resultType": "input_required"}
    with pytest.raises(MCPError, match="without the contents"):
        await resources.read("x:/1", True)


async def test_a_server_that_is_silent_is_given_up(servers: Servers) -> None:
    resources = ForwardedResources(servers, list, 0.01)
    resources.note("one", [link("x:/1")])
    servers.is_silent = True
    with pytest.raises(MCPError, match=r"did not answer within 0\.01 s"):
        await resources.read("x:/1", True)


async def test_what_matches_a_template_is_read_from_the_first_server_that_has_it(
    servers: Servers, resources: ForwardedResources
) -> None:
    servers.templates = [
        ("one", {"uriTemplate": "x:/{+broken", "name": "cannot be used"}),
        ("one", {"name": "none"}),
        ("one", {"uriTemplate": "x:/by/{name}"}),
        ("two", {"uriTemplate": "x:/by/{name}", "name": "the same"}),
        ("two", {"uriTemplate": "x:/{+path}"}),
    ]
    servers.listed = [("three", {"uri": "x:/by/listed"})]
    resources.note("four", [link("x:/by/linked")])
    for server, uri in (
        ("one", "x:/by/ada"),
        ("two", "x:/by/ada/lovelace"),
        ("three", "x:/by/listed"),
        ("four", "x:/by/linked"),
    ):
        await resources.read(uri, True)
        assert servers.asked.pop() == (server, uri)
    for uri in ("y:/by/ada", "x:/" + "x" * 4_000):
        with pytest.raises(MCPError, match="Resource not found"):
            await resources.read(uri, True)
    assert servers.asked == []


async def test_templates_are_listed_as_they_are_and_of_two_that_are_the_same_the_first(
    servers: Servers, resources: ForwardedResources
) -> None:
    first = {"uriTemplate": "x:/{a}", "name": "first", "_meta": {"a": 1}}
    servers.templates = [
        ("one", first),
        ("two", {"uriTemplate": "x:/{a}"}),
        ("two", {"uriTemplate": "x:/{b"}),
        ("two", {}),
    ]
    assert await resources.list_templates() == [first, {"uriTemplate": "x:/{b"}]


async def test_templates_that_do_not_come_are_given_up(servers: Servers) -> None:
    servers.is_silent = True
    resources = ForwardedResources(servers, list, 0.01)
    for request in (resources.list_templates(), resources.read("x:/1", True)):
        with pytest.raises(MCPError, match=r"did not answer within 0\.01 s"):
            await request
