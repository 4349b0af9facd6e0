"""Whether the server lives and is ready, for whoever watches over it without knowing more."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic, which needs it, brings it

from toolrun.server.api_answer import ApiAnswer
from toolrun.server.api_state import ApiState
from toolrun.server.operation import ApiRequest, Operation


class StatusAnswer(TypedDict):
    """One word."""

    status: str


def health_operations(state: ApiState) -> list[Operation]:
    async def health(request: ApiRequest) -> StatusAnswer:
        return {"status": "ok"}

    async def ready(request: ApiRequest) -> StatusAnswer | ApiAnswer:
        return {"status": "ready"} if state.is_ready() else ApiAnswer({"error": "not ready"}, 503)

    return [
        Operation("GET", "/health", health, "Whether this process answers", StatusAnswer, is_public=True),
        Operation("GET", "/ready", ready, "Whether calls can be made", StatusAnswer, is_public=True),
    ]
