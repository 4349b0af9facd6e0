"""The seam between a session and whatever carries its messages: the pipes of a process, or HTTP.

Above this line nobody knows of pids and status codes; below it nobody knows of tools and eras.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from toolrun.config.model import McpSettings, ServerSettings
from toolrun.mcp.client.json_rpc import LostError, OnNotification, OnRequest, Params, Pending, Read, Result
from toolrun.processes.engine import Engine
from toolrun.tools.context import OnProgress


@dataclass(frozen=True, slots=True)
class Server:
    """What is needed to reach a server."""

    name: str
    settings: ServerSettings
    mcp: McpSettings
    root: Path
    """The directory that relative paths start from."""
    environ: Mapping[str, str]
    """The environment variables of this process."""
    engine: Engine
    """Starts the processes of stdio servers."""

    @property
    def transport(self) -> str:
        return self.settings.transport or ("stdio" if self.settings.command else "http")

    @property
    def start_timeout(self) -> float:
        return self.settings.start_timeout or self.mcp.start_timeout

    @property
    def max_bytes(self) -> int:
        return self.mcp.max_message_mb * 1_000_000


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is done about messages that the server sends of its own accord."""

    on_request: OnRequest
    on_notification: OnNotification


class Channel(Protocol):
    """A connection with a server that can be used. All requests raise RpcError, BadAnswerError and LostError."""

    lost: asyncio.Event
    """Set when it has ended, and cannot be used any more."""

    @property
    def tail(self) -> str:
        """The last lines that the server wrote on stderr, if that can be told."""

    @property
    def loss(self) -> LostError | None:
        """Why it has ended."""

    async def request(
        self, method: str, params: Params | None, *, headers: Mapping[str, str], request_id: str | None = None
    ) -> Result:
        """`headers` are for those that have such."""

    async def notify(self, method: str, params: Params | None, *, headers: Mapping[str, str]) -> None: ...

    def begin(self, params: Params, read: Read, on_progress: OnProgress | None) -> Pending | None:
        """Call a tool without a coroutine, where that is possible; None where not."""

    async def call(self, params: Params, on_progress: OnProgress | None, *, headers: Mapping[str, str]) -> Result: ...

    def meet(self, tool: str, schema: dict[str, Any]) -> str | None:
        """Get to know a tool that will be called. Why it cannot be, if so."""

    def parameter_headers(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """The headers that a tool wants to have beside its arguments."""
