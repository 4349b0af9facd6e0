"""Which of our clients wants to hear of updates of which resource. Asks a server only for what somebody wants.

A client of the handshake era subscribes and unsubscribes; one of the newer era names its resources when it begins to
listen. Both end with their connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolrun.mcp.server.forwarded_resources import ForwardedResources

_MAX_SUBSCRIPTIONS: Final = 1_000
"""Of one client."""

Tell = Callable[[str], None]
"""Called with the URI of a resource that was updated. May be called from a callback of the event loop."""


class ResourceSubscriptions:
    """Knows clients by a key of their own, and how to tell them."""

    def __init__(self, resources: ForwardedResources) -> None:
        self._resources = resources
        self._reader = resources.reader
        self._servers: dict[int, dict[str, str]] = {}
        """By client: the server of each resource that it subscribed to."""
        self._asked: set[tuple[int, str, str]] = set()
        """Client, resource and server of the subscriptions that the server has not confirmed yet."""
        self._tell: dict[int, Tell] = {}
        self._reader.on_updated(self._updated)

    def open(self, client: int, tell: Tell) -> None:
        self._servers.setdefault(client, {})
        self._tell[client] = tell

    def close(self, client: int) -> None:
        """The client is gone."""
        self._tell.pop(client, None)
        for uri in list(self._servers.get(client, ())):
            self.unsubscribe(client, uri)
        self._servers.pop(client, None)

    async def subscribe(self, client: int, uri: str, is_modern: bool) -> None:
        """Raises MCPError if there is no such resource, or its server refuses."""
        own = self._servers.setdefault(client, {})
        if len(own) >= _MAX_SUBSCRIPTIONS and uri not in own:
            raise MCPError(INVALID_PARAMS, f"A client may subscribe to {_MAX_SUBSCRIPTIONS:,} resources")
        server = await self._resources.server_of(uri, is_modern)
        if not self._is_wanted(server, uri):
            asked = (client, uri, server)
            self._asked.add(asked)
            try:
                await self._resources.in_time(self._reader.subscribe(server, uri))
            finally:
                self._asked.discard(asked)
        if self._servers.get(client) is not own:  # it left meanwhile
            self._release(server, uri)
            return
        former, own[uri] = own.get(uri, server), server
        if former != server:
            self._release(former, uri)

    def unsubscribe(self, client: int, uri: str) -> None:
        server = self._servers.get(client, {}).pop(uri, None)
        if server is not None:
            self._release(server, uri)

    def _release(self, server: str, uri: str) -> None:
        if not self._is_wanted(server, uri):
            self._reader.unsubscribe(server, uri)

    def _is_wanted(self, server: str, uri: str) -> bool:
        return any(own.get(uri) == server for own in self._servers.values())

    def _updated(self, server: str, uri: str) -> None:
        """A server may name a part of the resource that was subscribed to. Clients are told of what they asked for.

        The first update may come together with the answer to the subscription, before anybody has read that.
        """
        confirmed = [(client, wanted, owner) for client, own in self._servers.items() for wanted, owner in own.items()]
        for client, wanted, owner in dict.fromkeys([*confirmed, *self._asked]):
            tell = self._tell.get(client)
            if tell is not None and owner == server and (uri == wanted or uri.startswith(f"{wanted.rstrip('/')}/")):
                tell(wanted)
