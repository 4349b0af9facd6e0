"""Reads the resources of MCP servers and hears of their updates, for a gateway that passes them on.

Knows nothing of who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from toolrun.config.model import TrustSettings
from toolrun.errors import CallError
from toolrun.logger import get_logger
from toolrun.mcp.call_result import ForwardedError
from toolrun.mcp.client.json_rpc import METHOD_NOT_FOUND, BadAnswerError, LostError, Result, RpcError, TransportError
from toolrun.mcp.client.supervisor import Supervisor
from toolrun.trust.definition_text import clean_text

logger = get_logger("toolrun.mcp")

_INTERNAL_ERROR: Final = -32603
_MAX_PAGES: Final = 100
_TEXTS: Final = ("name", "title", "description")

Entries = list[tuple[str, dict[str, Any]]]
"""Things that servers list, each with the name of its server."""


class ResourceReader:
    """The resources of all servers."""

    def __init__(self, supervisors: Sequence[Supervisor], limit: int = TrustSettings().max_description) -> None:
        """`limit` is that of a description."""
        self._supervisors = supervisors
        self._limit = limit

    @property
    def has_resources(self) -> bool:
        """Whether a server has resources, or is still being connected with and may have some."""
        return any(
            it.session.has_resources if it.session is not None else not it.first_attempts_over.is_set()
            for it in self._supervisors
        )

    @property
    def can_subscribe(self) -> bool:
        """Whether a server announces updates of its resources."""
        return any(it.session is not None and it.session.can_subscribe for it in self._supervisors)

    async def read(self, server: str, uri: str) -> Result:
        """The answer of a server to `resources/read`. Raises ForwardedError."""
        return await self._request(self._find(server), "resources/read", {"uri": uri})

    async def list_resources(self) -> Entries:
        """All resources. A server that fails is left out."""
        return await self._list_all("resources/list", "resources")

    async def list_templates(self) -> Entries:
        """All templates of resources. A server that fails is left out."""
        return await self._list_all("resources/templates/list", "resourceTemplates")

    async def subscribe(self, server: str, uri: str) -> None:
        """Want the updates of a resource. Raises ForwardedError if the server does not announce them, or refuses."""
        supervisor = self._find(server)
        session = supervisor.session
        if session is not None and not session.can_subscribe:
            message = f"The MCP server '{server}' does not announce updates of its resources"
            raise ForwardedError(METHOD_NOT_FOUND, message)
        try:
            await supervisor.subscribe(uri)
        except (CallError, RpcError, LostError, BadAnswerError) as error:
            raise _forwarded(supervisor, error) from error

    def unsubscribe(self, server: str, uri: str) -> None:
        self._find(server).unsubscribe(uri)

    def on_updated(self, tell: Callable[[str, str], None]) -> None:
        """Call `tell` with the names of the server and the resource whenever one is updated."""
        for supervisor in self._supervisors:
            supervisor.on_updated = partial(tell, supervisor.name)

    async def _list_all(self, method: str, key: str) -> Entries:
        found = await asyncio.gather(*(self._list(it, method, key) for it in self._supervisors))
        named = zip(self._supervisors, found, strict=True)
        return [(supervisor.name, self._cleaned(one)) for supervisor, part in named for one in part]

    def _cleaned(self, listed: dict[str, Any]) -> dict[str, Any]:
        """What models read of it, as with tools."""
        texts = {key: clean_text(it, self._limit) for key in _TEXTS if isinstance(it := listed.get(key), str)}
        return {**listed, **texts}

    async def _list(self, supervisor: Supervisor, method: str, key: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        if supervisor.session is None or not supervisor.session.has_resources:
            return entries
        try:
            for _ in range(_MAX_PAGES):
                page = await self._request(supervisor, method, params)
                listed = page.get(key)
                entries += (it for it in listed if isinstance(it, dict)) if isinstance(listed, list) else ()
                cursor = page.get("nextCursor")
                if not isinstance(cursor, str) or params == {"cursor": cursor}:
                    break
                params = {"cursor": cursor}
        except ForwardedError as error:
            if error.code != METHOD_NOT_FOUND:
                logger.warning("MCP server '%s': %s failed: %s", supervisor.name, method, error)
        return entries

    def _find(self, server: str) -> Supervisor:
        for supervisor in self._supervisors:
            if supervisor.name == server:
                return supervisor
        raise ForwardedError(_INTERNAL_ERROR, f"The MCP server '{server}' is no longer configured")

    async def _request(self, supervisor: Supervisor, method: str, params: dict[str, Any]) -> Result:
        try:
            session = await supervisor.connected()
            return await session.request_resources(method, params)
        except (CallError, RpcError, LostError, BadAnswerError) as error:
            raise _forwarded(supervisor, error) from error


def _forwarded(supervisor: Supervisor, error: Exception) -> ForwardedError:
    """What the client is told: the server's own error, or that there was no answer."""
    if isinstance(error, TransportError):
        is_plain = error.is_refusal or error.rpc is None
        message = error.summary if is_plain else f"{error.message} ({error.facts})"
        return ForwardedError(error.code, message, error.data)
    if isinstance(error, RpcError):
        return ForwardedError(error.code, error.message, error.data)
    return ForwardedError(_INTERNAL_ERROR, f"The MCP server '{supervisor.name}' gave no answer: {error}")
