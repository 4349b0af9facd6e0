"""A channel whose server is a function of the test: no process, no port, no bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolrun.mcp.client.json_rpc import LostError, NotSentError, OnLateAnswer, Params, Pending, Read, Result
from toolrun.tools.context import OnProgress

Serve = Callable[[str, Mapping[str, Any]], Result | Awaitable[Result]]
"""Answers a request now or later, or raises RpcError or BadAnswerError."""


class MemoryChannel:
    """Answers each request in the next turn of the event loop, and keeps what was sent."""

    def __init__(self, serve: Serve) -> None:
        self.lost = asyncio.Event()
        self.loss: LostError | None = None
        self.tail = ""
        self.sent: list[tuple[str, Params | None]] = []
        self._serve = serve

    def submit(self, method: str, params: Params, read: Read, on_progress: OnProgress | None) -> Pending | None:
        return None

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
        on_late_answer: OnLateAnswer | None = None,
    ) -> Result:
        await self.notify(method, params)
        answer = self._serve(method, params or {})
        return answer if isinstance(answer, dict) else await answer

    async def notify(self, method: str, params: Params | None = None) -> None:
        if self.loss is not None:
            raise NotSentError(str(self.loss))
        self.sent.append((method, params))
        await asyncio.sleep(0)

    def lose(self, loss: LostError) -> None:
        self.loss = loss
        self.lost.set()
