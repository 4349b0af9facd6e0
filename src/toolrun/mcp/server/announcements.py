"""Tells clients what has changed: the tools, and resources that they subscribed to. Each in the way of its era.

A client of the handshake era is told over its connection, from the moment in which it is initialized. One of the newer
era listens, and names what it wants to hear of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import NotificationParams, SubscriptionsListenRequestParams, SubscriptionsListenResult

from toolrun.logger import get_logger
from toolrun.mcp.server.resource_subscriptions import ResourceSubscriptions

logger = get_logger("toolrun.serve")

_SETTLING: Final = 0.05
"""Seconds for which changes are collected: the tools of a file or a server change together."""

Context = ServerRequestContext[Any, Any]


class Announcements:
    """What has changed, and who is to be told. For the event loop of `running`."""

    def __init__(self, subscriptions: ResourceSubscriptions | None) -> None:
        self._subscriptions = subscriptions
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus)
        self._clients: dict[int, _Client] = {}
        """The clients of the handshake era."""
        self._have_tools_changed = False
        self._updated: dict[str, None] = {}
        """Resources that were updated, for clients of the newer era."""
        self._news = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """At the end, the streams of clients that listen are closed."""
        announcing = asyncio.create_task(self._announce())
        try:
            yield
        finally:
            announcing.cancel()
            await asyncio.wait([announcing])
            self._listeners.close()

    def tools_changed(self) -> None:
        self._have_tools_changed = True
        self._news.set()

    async def on_initialized(self, ctx: Context, params: NotificationParams) -> None:
        """Announce changes to a client of the handshake era, until the SDK ends this task with the connection.

        A client may say more than once that it is initialized. It is known by its parameters, which are one object.
        """
        key = id(ctx.session.client_params)
        if ctx.session.client_params is None or key in self._clients:
            return
        client = self._clients[key] = _Client()

        def tell(uri: str) -> None:
            client.updated[uri] = None
            self._news.set()

        try:
            if self._subscriptions is not None:
                self._subscriptions.open(key, tell)
            await client.announce(ctx)
        finally:
            del self._clients[key]
            if self._subscriptions is not None:
                self._subscriptions.close(key)

    async def on_listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Announce changes to a client of the newer era, as long as it listens."""
        uris, subscriptions = params.notifications.resource_subscriptions or [], self._subscriptions
        if subscriptions is None or not uris:
            return await self._listeners(ctx, params)

        def tell(uri: str) -> None:
            self._updated[uri] = None
            self._news.set()

        key = id(params)
        subscriptions.open(key, tell)
        subscribing = asyncio.create_task(_subscribe(subscriptions, key, uris))
        try:
            return await self._listeners(ctx, params)
        finally:
            subscribing.cancel()
            subscriptions.close(key)

    async def _announce(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(_SETTLING)
            self._news.clear()
            have_changed, self._have_tools_changed = self._have_tools_changed, False
            updated, self._updated = self._updated, {}
            for client in self._clients.values():
                client.wake(have_changed)
            if have_changed:
                await self._bus.publish(ToolsListChanged())
            for uri in updated:
                await self._bus.publish(ResourceUpdated(uri))


class _Client:
    """A client of the handshake era: what it must be told."""

    def __init__(self) -> None:
        self.updated: dict[str, None] = {}
        self._have_tools_changed = False
        self._news = asyncio.Event()

    def wake(self, have_tools_changed: bool) -> None:
        self._have_tools_changed = self._have_tools_changed or have_tools_changed
        if self._have_tools_changed or self.updated:
            self._news.set()

    async def announce(self, ctx: Context) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            updated, self.updated = self.updated, {}
            if self._have_tools_changed:
                self._have_tools_changed = False
                await ctx.session.send_tool_list_changed()
            for uri in updated:
                await ctx.session.send_resource_updated(uri)


async def _subscribe(subscriptions: ResourceSubscriptions, client: int, uris: list[str]) -> None:
    for uri in uris:
        try:
            await subscriptions.subscribe(client, uri, is_modern=True)
        except MCPError as error:  # the protocol has no answer for a single one: it never changes
            logger.info("a client listens for updates of %r, and there are none: %s", uri, error)
