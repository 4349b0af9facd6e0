"""An MCP server in this process with tools that need approval, and the person at its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import ElicitResult, ErrorData

from toolrun import ToolExecutor, ToolManager, tool
from toolrun.config.model import ApprovalSettings
from toolrun.errors import NotApprovedError
from toolrun.execution.approval import current_caller
from toolrun.journal.approval_row import find_approval
from toolrun.journal.history import PastCall, open_history
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.mcp.server.mcp_server import McpServer
from toolrun.trust.approvals import Approvals


class Person:
    """Answers what a client asks, always in the same way, and remembers the forms."""

    def __init__(self, action: Any = "accept", **content: Any) -> None:
        self.action = action
        self.content = content
        self.forms: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult | ErrorData:
        self.forms.append(params)
        return ElicitResult(action=self.action, content=self.content or None)


class Absent(Person):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.is_let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_let_go.set()
        raise AssertionError


class Shop:
    """A server with tools that need approval. `restart` is what another process would do with the same journal."""

    def __init__(self, path: Path, settings: ApprovalSettings) -> None:
        self._path = path
        self._settings = settings
        self.ran: list[str] = []
        self._open()

    def _open(self, description: str = "Remove a file.") -> None:
        @tool(description=description, annotations={"destructiveHint": True})
        async def remove(path: str, count: int = 1) -> str:
            self.ran.append(path)
            return f"removed {path}"

        @tool
        async def tidy(path: str, insists: bool = False) -> str:
            """Calls another tool."""
            self.ran.append(f"tidy {path}")
            result = await self.executor.execute("wipe", {"path": path})
            if insists and result.error is not None:
                raise NotApprovedError(result.error)
            return result.text

        @tool
        async def wipe(path: str) -> str:
            """A tool for which there is a rule."""
            self.ran.append(f"wipe {path}")
            return f"wiped {path}"

        @tool
        async def who() -> str:
            """Says who calls it."""
            caller = current_caller.get()
            return "nobody" if caller is None else f"model {caller.is_model}"

        self.journal = Journal(self._path, consumer="test")
        self.manager = ToolManager([remove, tidy, wipe, who])
        self.executor = ToolExecutor(self.manager, recorder=CallRecorder(self.journal), observers=[])
        self.approvals = self.executor.approver = Approvals(self._settings, journal=self.journal)
        self.server = McpServer(self.manager, self.executor)

    async def close(self) -> None:
        await self.executor.close()
        self.journal.close()

    async def restart(self, description: str = "Remove a file.") -> None:
        await self.close()
        self._open(description)

    def change(self, description: str) -> None:
        """As if the file of the tool were edited."""

        @tool(name="remove", description=description, annotations={"destructiveHint": True})
        async def changed(path: str, count: int = 1) -> str:
            self.ran.append(path)
            return f"removed {path}"

        self.manager.remove("remove")
        self.manager.add(changed)

    @asynccontextmanager
    async def client(self, era: str, person: Person | None = None) -> AsyncIterator[Client]:
        async with self.server.announcing(), Client(self.server.sdk, mode=era, elicitation_callback=person) as client:
            yield client

    async def states(self) -> list[str]:
        """Of all requests, in order."""
        await self.journal.drain()
        rows = [await self.row(id) for id in range(1, 10)]
        return [row.state for row in rows if row is not None]

    async def row(self, id: int) -> Any:
        return await asyncio.wrap_future(self.journal.run(lambda connection: find_approval(connection, id)))

    async def calls(self) -> list[PastCall]:
        await self.journal.drain()
        with open_history(self._path) as history:
            return history.calls(limit=100)[::-1]
