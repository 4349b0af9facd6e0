"""Which client wants updates of what, and what the servers are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from toolrun.mcp.call_result import ForwardedError
from toolrun.mcp.server import resource_subscriptions
from toolrun.mcp.server.forwarded_resources import ForwardedResources
from toolrun.mcp.server.resource_subscriptions import ResourceSubscriptions


class Servers:
    """Servers with the resources `a:/…` and `b:/…`, and a record of who was asked for what."""

    has_resources = can_subscribe = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.error: ForwardedError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.updated: Callable[[str, str], None]

    async def read(self, server: str, uri: str) -> dict[str, Any]:
        raise NotImplementedError

    async def list_resources(self) -> list[tuple[str, dict[str, Any]]]:
        return []

    async def list_templates(self) -> list[tuple[str, dict[str, Any]]]:
        return [("one", {"uriTemplate": "a:/{+x}"}), ("two", {"uriTemplate": "b:/{+x}"})]

    async def subscribe(self, server: str, uri: str) -> None:
        self.asked.append(("subscribe", server, uri))
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    def unsubscribe(self, server: str, uri: str) -> None:
        self.asked.append(("unsubscribe", server, uri))

    def on_updated(self, tell: Callable[[str, str], None]) -> None:
        self.updated = tell


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def resources(servers: Servers) -> ForwardedResources:
    return ForwardedResources(servers, list, 30)


@pytest.fixture
def subscriptions(resources: ForwardedResources) -> ResourceSubscriptions:
    return ResourceSubscriptions(resources)


async def test_a_server_is_asked_for_what_the_first_client_wants_and_let_off_with_the_last(
    servers: Servers, subscriptions: ResourceSubscriptions
) -> None:
    await subscriptions.subscribe(1, "a:/x", is_modern=False)
    await subscriptions.subscribe(2, "a:/x", is_modern=False)
    await subscriptions.subscribe(1, "a:/x", is_modern=False)
    await subscriptions.subscribe(2, "b:/x", is_modern=False)
    assert servers.asked == [("subscribe", "one", "a:/x"), ("subscribe", "two", "b:/x")]
    servers.asked.clear()
    subscriptions.unsubscribe(1, "a:/x")
    subscriptions.unsubscribe(1, "a:/x")
    subscriptions.unsubscribe(3, "a:/x")
    assert servers.asked == []
    subscriptions.close(2)
    assert servers.asked == [("unsubscribe", "one", "a:/x"), ("unsubscribe", "two", "b:/x")]
    subscriptions.close(2)
    assert len(servers.asked) == 2


async def test_a_client_is_told_of_what_it_wants_of_that_server_and_of_parts_of_it(
    servers: Servers, subscriptions: ResourceSubscriptions
) -> None:
    told: list[tuple[int, str]] = []
    for client in (1, 2):
        subscriptions.open(client, lambda uri, client=client: told.append((client, uri)))  # type: ignore[misc]
    await subscriptions.subscribe(1, "a:/x", is_modern=False)
    await subscriptions.subscribe(2, "a:/x/y", is_modern=False)
    servers.updated("one", "a:/x")
    assert told == [(1, "a:/x")]
    told.clear()
    servers.updated("one", "a:/x/y")
    assert told == [(1, "a:/x"), (2, "a:/x/y")]
    told.clear()
    servers.updated("two", "a:/x")
    servers.updated("one", "a:/xy")
    servers.updated("one", "a:/")
    assert told == []
    subscriptions.close(1)
    servers.updated("one", "a:/x")
    assert told == []


async def test_what_its_server_refuses_or_nobody_has_is_no_subscription(
    servers: Servers, subscriptions: ResourceSubscriptions
) -> None:
    for is_modern, code in ((True, -32602), (False, -32002)):
        with pytest.raises(MCPError) as unknown:
            await subscriptions.subscribe(1, "c:/x", is_modern=is_modern)
        assert unknown.value.error.code == code
    servers.error = ForwardedError(-32042, "no", {"why": 1})
    with pytest.raises(MCPError) as refused:
        await subscriptions.subscribe(1, "a:/x", is_modern=False)
    assert (refused.value.error.code, refused.value.error.data) == (-32042, {"why": 1})
    servers.error = None
    await subscriptions.subscribe(2, "a:/x", is_modern=False)
    assert servers.asked == [("subscribe", "one", "a:/x")] * 2


async def test_another_server_that_links_the_resource_takes_the_subscription_over(
    servers: Servers, resources: ForwardedResources, subscriptions: ResourceSubscriptions
) -> None:
    await subscriptions.subscribe(1, "a:/x", is_modern=False)
    resources.note("two", [{"type": "resource_link", "uri": "a:/x"}])
    await subscriptions.subscribe(1, "a:/x", is_modern=False)
    assert servers.asked[1:] == [("subscribe", "two", "a:/x"), ("unsubscribe", "one", "a:/x")]


async def test_a_client_that_leaves_while_its_server_is_asked_is_not_subscribed(
    servers: Servers, subscriptions: ResourceSubscriptions
) -> None:
    servers.gate.clear()
    subscriptions.open(1, lambda _: None)
    subscribing = asyncio.create_task(subscriptions.subscribe(1, "a:/x", is_modern=False))
    while not servers.asked:  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(0)
    subscriptions.close(1)
    servers.gate.set()
    await subscribing
    assert servers.asked == [("subscribe", "one", "a:/x"), ("unsubscribe", "one", "a:/x")]


async def test_a_client_has_a_limited_number_of_subscriptions(
    subscriptions: ResourceSubscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_subscriptions, "_MAX_SUBSCRIPTIONS", 2)
    for uri in ("a:/1", "a:/2", "a:/2"):
        await subscriptions.subscribe(1, uri, is_modern=False)
    with pytest.raises(MCPError, match="may subscribe to 2 resources"):
        await subscriptions.subscribe(1, "a:/3", is_modern=False)
    await subscriptions.subscribe(2, "a:/3", is_modern=False)
    subscriptions.unsubscribe(1, "a:/1")
    await subscriptions.subscribe(1, "a:/3", is_modern=False)


async def test_an_update_that_comes_with_the_answer_to_the_subscription_is_told(
    servers: Servers, subscriptions: ResourceSubscriptions
) -> None:
    told: list[str] = []
    subscriptions.open(1, told.append)
    servers.gate.clear()
    subscribing = asyncio.create_task(subscriptions.subscribe(1, "a:/x", is_modern=True))
    async with asyncio.timeout(30):
        while not servers.asked:  # noqa: ASYNC110  nobody says when it is asked
            await asyncio.sleep(0)
    servers.gate.set()  # the answer is there, and nobody has read it
    servers.updated("one", "a:/x")
    servers.updated("two", "a:/x")
    assert told == ["a:/x"]
    await subscribing
    servers.updated("one", "a:/x")
    assert told == ["a:/x", "a:/x"]


async def test_nothing_is_told_of_a_subscription_that_was_refused(
    servers: Servers, subscriptions: ResourceSubscriptions
) -> None:
    told: list[str] = []
    subscriptions.open(1, told.append)
    servers.error = ForwardedError(-5, "no")
    with pytest.raises(MCPError):
        await subscriptions.subscribe(1, "a:/x", is_modern=True)
    servers.updated("one", "a:/x")
    assert told == []
