"""Whether the server lives and is ready, for whoever watches over it.

GET /health   without a token: this process answers
GET /ready    without a token: calls can be made, or 503
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from toolrun.runtime import Runtime

PUBLIC: Final = frozenset({"/health", "/ready"})
"""These tell nothing to whoever has no token."""


class HealthRoutes:
    """The routes, by path and method."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.routes: dict[str, dict[str, Any]] = {"/health": {"GET": self._health}, "/ready": {"GET": self._ready}}

    async def _health(self, request: Request, _: Any) -> dict[str, str]:
        return {"status": "ok"}

    async def _ready(self, request: Request, _: Any) -> Any:
        if self._is_ready():
            return {"status": "ready"}
        return JSONResponse({"status": "not ready"}, 503)

    def _is_ready(self) -> bool:
        """Whether every server has been tried, and calls are not refused because they cannot be recorded."""
        if not all(server.first_attempts_over.is_set() for server in self._runtime.servers):
            return False
        needs_journal = self._runtime.config.journal.enabled and self._runtime.config.journal.required
        return not (needs_journal and self._runtime.executor.health().journal)
