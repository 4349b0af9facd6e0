"""Resources of other servers, for clients that follow the links in results.

A client may read what the result of a tool linked, what a tool names in its `_meta`, what the servers list, and what
matches a template of theirs, in this order. Each is read from the server that named it and no other: a server can name
any URI, also one of another server's. Of two that linked it the last is asked, of two that list it or have a template
for it the first in the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from toolrun.json import JSON, dumps
from toolrun.mcp.call_result import ForwardedError
from toolrun.mcp.server.tool_list import ServedTool

T = TypeVar("T")

_MAX_LINKS: Final = 10_000
"""Links that are remembered; then the oldest is forgotten."""
_MAX_URI: Final = 4_000
"""Characters of a link that is remembered."""
_NOT_FOUND: Final = -32002
"""The code for an unknown resource in the handshake era."""


class ResourceSource(Protocol):
    """Reads from the servers."""

    @property
    def has_resources(self) -> bool:
        """Whether a server has any, or may have."""

    async def read(self, server: str, uri: str) -> dict[str, Any]:
        """Raises ForwardedError."""

    async def list_resources(self) -> list[tuple[str, dict[str, Any]]]:
        """All of them, each with the name of its server."""

    async def list_templates(self) -> list[tuple[str, dict[str, Any]]]:
        """The templates of resources, each with the name of its server."""

    @property
    def can_subscribe(self) -> bool:
        """Whether a server announces updates of its resources."""

    async def subscribe(self, server: str, uri: str) -> None:
        """Raises ForwardedError."""

    def unsubscribe(self, server: str, uri: str) -> None: ...

    def on_updated(self, tell: Callable[[str, str], None]) -> None:
        """Call `tell` with the names of the server and the resource whenever one is updated."""


class ForwardedResources:
    """What was linked, and by which server."""

    def __init__(self, reader: ResourceSource, tools: Callable[[], Iterable[ServedTool]], timeout: float) -> None:
        """`tools` gives the tools that name resources in their `_meta`; `timeout` is for one request."""
        self.reader = reader
        self._tools = tools
        self._timeout = timeout
        self._servers: dict[str, str] = {}
        """The server of each URI, the oldest first."""

    def note(self, server: str, blocks: Iterable[Mapping[str, JSON]]) -> None:
        """Remember the links in the result of a server's tool."""
        for block in blocks:
            kind = block.get("type")
            if kind == "resource_link":
                self._remember(server, block.get("uri"))
            elif kind == "resource" and isinstance(resource := block.get("resource"), dict):
                self._remember(server, resource.get("uri"))

    async def read(self, uri: str, is_modern: bool) -> dict[str, Any]:
        """The answer to `resources/read`. Raises MCPError."""
        server = await self.server_of(uri, is_modern)
        answer = await self.in_time(self.reader.read(server, uri))
        if not isinstance(answer.get("contents"), list):
            raise MCPError(INTERNAL_ERROR, f"The MCP server '{server}' answered without the contents of the resource")
        return {key: answer[key] for key in ("contents", "_meta") if key in answer}

    async def server_of(self, uri: str, is_modern: bool) -> str:
        """The server that is asked for a resource. Raises MCPError if none has named it."""
        server = self._servers.get(uri) or self._named_by_tool(uri)
        if server is None:
            _, templates = await asyncio.gather(self.list_all(), self.in_time(self.reader.list_templates()))
            server = self._servers.get(uri) or next((it for it, one in templates if _matches(one, uri)), None)
        if server is None:
            message = "Resource not found: no result of a tool has linked it, and no server lists it"
            raise MCPError(INVALID_PARAMS if is_modern else _NOT_FOUND, message, {"uri": uri})
        return server

    async def list_templates(self) -> list[dict[str, Any]]:
        """The templates that the servers list. Of two that are the same the first is listed. Raises MCPError."""
        found: dict[str, dict[str, Any]] = {}
        for _, template in await self.in_time(self.reader.list_templates()):
            text = template.get("uriTemplate")
            if isinstance(text, str) and len(found) < _MAX_LINKS:
                found.setdefault(text, template)
        return list(found.values())

    async def list_all(self) -> list[dict[str, Any]]:
        """The resources that the servers list. Of two with the same URI the first is listed. Raises MCPError."""
        found: dict[str, dict[str, Any]] = {}
        for server, resource in await self.in_time(self.reader.list_resources()):
            uri = resource.get("uri")
            if isinstance(uri, str) and uri not in found and len(found) < _MAX_LINKS:
                found[uri] = resource
                if uri not in self._servers:
                    self._remember(server, uri)
        return list(found.values())

    def _remember(self, server: str, uri: object) -> None:
        if not isinstance(uri, str) or len(uri) > _MAX_URI:
            return
        self._servers.pop(uri, None)
        self._servers[uri] = server
        if len(self._servers) > _MAX_LINKS:
            del self._servers[next(iter(self._servers))]

    def _named_by_tool(self, uri: str) -> str | None:
        text = dumps(uri)
        return next(
            (it.server for it in self._tools() if it.server and text in dumps(it.definition.get("_meta"))), None
        )

    async def in_time(self, request: Awaitable[T]) -> T:
        """The answer of a server. Raises MCPError with what the client is told."""
        try:
            async with asyncio.timeout(self._timeout):
                return await request
        except TimeoutError:
            raise MCPError(INTERNAL_ERROR, f"The server did not answer within {self._timeout:g} s") from None
        except ForwardedError as error:
            raise MCPError(error.code, error.message, error.data) from error


def _matches(template: Mapping[str, Any], uri: str) -> bool:
    try:
        return UriTemplate.parse(str(template.get("uriTemplate"))).match(uri, max_uri_length=_MAX_URI) is not None
    except InvalidUriTemplate:
        return False
