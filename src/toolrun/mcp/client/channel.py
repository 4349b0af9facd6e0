"""The seam between a session and whatever carries its messages: the pipes of a process, HTTP, or a test.

Above it nobody knows pids, headers and status codes; below it nobody knows what a session is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from toolrun.config.model import McpSettings, ServerSettings
from toolrun.mcp.client.json_rpc import (
    LostError,
    OnLateAnswer,
    OnNotification,
    OnRequest,
    Params,
    Pending,
    Read,
    Result,
)
from toolrun.processes.engine import Engine
from toolrun.processes.sandbox.confine import Sandboxes
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
    cache: Path
    """The directory in which is kept what is known about servers."""
    sandboxes: Sandboxes | None = None
    """Of the project; None outside of one."""

    @property
    def transport(self) -> str:
        return self.settings.transport or ("stdio" if self.settings.command else "http")

    @property
    def start_timeout(self) -> float:
        return self.settings.start_timeout or self.mcp.start_timeout

    @property
    def max_bytes(self) -> int:
        return self.mcp.max_message_mb * 1_000_000


class LargeResult(dict[str, Any]):
    """A result that it takes a thread to go through. Our own JSON module has read it."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Called with the requests and notifications that the server sends."""

    on_request: OnRequest
    on_notification: OnNotification


class Channel(Protocol):
    """A connection with a server. Requests raise RpcError, BadAnswerError and LostError.

    A channel carries messages. What its transport needs beyond them (HTTP has headers for the version, the method and
    some arguments) it takes from the messages themselves.
    """

    lost: asyncio.Event
    """Set when the connection has ended."""

    @property
    def loss(self) -> LostError | None:
        """Why the connection has ended."""

    @property
    def tail(self) -> str:
        """The last lines that the server wrote on stderr, where there is such a thing."""

    def submit(self, method: str, params: Params, read: Read, on_progress: OnProgress | None) -> Pending | None:
        """Send a request without a coroutine. None if this channel needs one: then `request` does it."""

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
        on_late_answer: OnLateAnswer | None = None,
    ) -> Result: ...

    async def notify(self, method: str, params: Params | None = None) -> None: ...
