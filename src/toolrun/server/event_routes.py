"""GET /api/events: what happens, as it happens."""

from __future__ import annotations

from typing import Any

from toolrun.server.api_answer import EventStream, Write
from toolrun.server.api_state import ApiState
from toolrun.server.event_hub import EventHub
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.report_routes import workers_of


def event_operations(state: ApiState) -> list[Operation]:
    async def look() -> dict[str, Any]:
        runtime, found = state.runtime, dict[str, Any]()
        if runtime.approvals is not None:
            found["approval"] = [(it.id, it.state) for it in await runtime.approvals.open()]
        if runtime.journal is not None:
            found["effects"] = await state.read(lambda history: history.doubts())
        health = runtime.executor.health()
        servers = [(it.name, it.state, it.error) for it in runtime.servers]
        workers = [(id(worker), worker.state) for _, _, worker in workers_of(state)]
        found["health"] = [servers, workers, dict(health.abandoned), health.lingering, health.journal]
        found["trust"] = [(it.server, it.tool, it.after.hash) for it in runtime.changes]
        return found

    hub = EventHub(state.running_calls, state.runtime.manager, look)

    async def events(request: ApiRequest) -> EventStream:
        async def run(write: Write) -> None:
            with hub.subscribed() as subscription:
                await write("ready", {})
                while True:
                    name, data = await subscription.get()
                    await write(name, {} if data is None else data)

        return EventStream(run)

    return [
        Operation(
            "GET",
            "/api/events",
            events,
            "What happens, as it happens",
            "text/event-stream",
            events={
                "ready": "{}: from now on nothing is missed",
                "call": "{phase, run, id, tool, at, outcome, error_kind, run_us}: a call has `started` or `ended`",
                "missed": "{calls}: the number of call events that were left out because this client reads too slowly",
                "approval": "{}: requests for approval have changed",
                "effects": "{}: the calls in doubt have changed",
                "health": "{}: servers, workers or threads have changed",
                "tools": "{}: the tools have changed",
                "trust": "{}: definitions of tools have changed, or were accepted",
            },
        )
    ]
