"""Reads the resources of MCP servers, for a gateway that passes them on. Knows nothing of who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from toolrun.errors import CallError
from toolrun.logger import get_logger
from toolrun.mcp.call_result import ForwardedError
from toolrun.mcp.client.json_rpc import METHOD_NOT_FOUND, BadAnswerError, LostError, Result, RpcError
from toolrun.mcp.client.supervisor import Supervisor

logger = get_logger("toolrun.mcp")

_INTERNAL_ERROR: Final = -32603
_MAX_PAGES: Final = 100


class ResourceReader:
    """The resources of all servers."""

    def __init__(self, supervisors: Sequence[Supervisor]) -> None:
        self._supervisors = supervisors

    @property
    def has_resources(self) -> bool:
        """Whether a server has resources, or is still being connected with and may have some."""
        return any(
            it.session.has_resources if it.session is not None else not it.settled.is_set() for it in self._supervisors
        )

    async def read(self, server: str, uri: str) -> Result:
        """The answer of a server to `resources/read`. Raises ForwardedError."""
        for supervisor in self._supervisors:
            if supervisor.name == server:
                return await self._request(supervisor, "resources/read", {"uri": uri})
        raise ForwardedError(_INTERNAL_ERROR, f"The MCP server '{server}' is not configured any more")

    async def list_resources(self) -> list[tuple[str, dict[str, Any]]]:
        """All resources, each with the name of its server. A server that fails is left out."""
        found = await asyncio.gather(*map(self._list, self._supervisors))
        named = zip(self._supervisors, found, strict=True)
        return [(supervisor.name, one) for supervisor, part in named for one in part]

    async def _list(self, supervisor: Supervisor) -> list[dict[str, Any]]:
        resources: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        if supervisor.session is None or not supervisor.session.has_resources:
            return resources
        try:
            for _ in range(_MAX_PAGES):
                page = await self._request(supervisor, "resources/list", params)
                listed = page.get("resources")
                resources += (it for it in listed if isinstance(it, dict)) if isinstance(listed, list) else ()
                cursor = page.get("nextCursor")
                if not isinstance(cursor, str) or params == {"cursor": cursor}:
                    break
                params = {"cursor": cursor}
        except ForwardedError as error:
            if error.code != METHOD_NOT_FOUND:
                logger.warning("MCP server '%s': its resources could not be listed: %s", supervisor.name, error)
        return resources

    async def _request(self, supervisor: Supervisor, method: str, params: dict[str, Any]) -> Result:
        try:
            session = await supervisor.connected()
            return await session.request_resources(method, params)
        except RpcError as error:
            raise ForwardedError(error.code, error.message, error.data) from error
        except (CallError, LostError, BadAnswerError) as error:
            message = f"The MCP server '{supervisor.name}' gave no answer: {error}"
            raise ForwardedError(_INTERNAL_ERROR, message) from error
