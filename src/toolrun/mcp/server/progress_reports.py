"""Passes the progress of a call on to the client that made it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from toolrun.mcp.server.announcements import Context
from toolrun.tools.context import OnProgress, Progress

_MAX_REPORTS: Final = 256
"""Reports of progress that wait for a client to read; then the oldest are dropped."""


@asynccontextmanager
async def reporting(ctx: Context) -> AsyncIterator[OnProgress]:
    """Yields a function that takes reports of progress. They are sent in order, and before the answer."""
    reports: deque[Progress] = deque(maxlen=_MAX_REPORTS)
    news = asyncio.Event()
    is_over = False

    def report(progress: Progress) -> None:
        reports.append(progress)
        news.set()

    async def send() -> None:
        while reports or not is_over:
            if not reports:
                news.clear()
                await news.wait()
                continue
            it = reports.popleft()
            await ctx.session.report_progress(it.progress, it.total, it.message or None)

    sending = asyncio.create_task(send())
    try:
        yield report
        is_over = True
        news.set()
        await sending
    finally:
        sending.cancel()
