"""What runs at this moment, what stops it, and what is made again."""

from __future__ import annotations

from time import time_ns
from typing import (
    Any,
    Final,
    NotRequired,  # pydantic, which needs it, brings it
)

from typing_extensions import TypedDict

from toolrun.errors import CallError
from toolrun.journal.call_record import CallState, read_id, show_id
from toolrun.journal.history import History, PastCall
from toolrun.journal.past_call import arguments_of
from toolrun.server.api_state import ApiState
from toolrun.server.call_view import CallRow, summary_of, view_row
from toolrun.server.history_routes import MISSING_CALL, find_call
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError
from toolrun.server.running_calls import RunningCall
from toolrun.tools.context import Call
from toolrun.tools.effects import Effects

_STOPPED_BY: Final = "a client of the HTTP API"
_HOW: Final = 'set: {"set": {NAME: VALUE}}'


class ProgressView(TypedDict):
    """How far a tool says it has got."""

    progress: float
    total: float | None
    message: str


class RunningView(TypedDict):
    """A call that has no answer yet."""

    id: str
    """What stops it: this id, and not that of the journal."""
    recorded_as: str | None
    """Its id in the journal, once it has one."""
    tool: str
    caller_id: str | None
    started: int
    deadline: int | None
    state: str
    """`queued` until it gets its turn, `waiting` for approval or for what its tool needs, else `running`."""
    phase: str
    """What it waits for before its tool begins."""
    progress: ProgressView | None
    parent: str | None


class RunningAnswer(TypedDict):
    """The oldest first."""

    now: int
    calls: list[RunningView]


class CancelBody(TypedDict):
    """Nothing need be said."""


class StateAnswer(TypedDict):
    """What has become of it."""

    state: str


class ReplayBody(TypedDict):
    """How to make a call again."""

    set: NotRequired[dict[str, Any]]
    """Other values for arguments, or those that are not on record."""
    confirm: NotRequired[bool]
    """Call a tool that may act."""


class ReplayAnswer(TypedDict):
    """Both calls."""

    same: bool
    """Whether outcome, result and error are the same."""
    before: CallRow
    after: CallRow
    result: Any
    error: str | None


def running_operations(state: ApiState) -> list[Operation]:
    routes = _RunningRoutes(state)
    return [
        Operation("GET", "/api/running", routes.running, "List the calls that run", RunningAnswer),
        Operation(
            "POST",
            "/api/calls/{id}/cancel",
            routes.cancel,
            "Stop a call that runs",
            StateAnswer,
            CancelBody,
            failures={404: "No such call runs.", 409: "It cannot be stopped at this moment."},
        ),
        Operation(
            "POST",
            "/api/calls/{id}/replay",
            routes.replay,
            "Make a call again",
            ReplayAnswer,
            ReplayBody,
            failures={**MISSING_CALL, 409: "Its tool is not there, or may act again and nobody has confirmed that."},
        ),
    ]


class _RunningRoutes:
    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._runtime = state.runtime

    async def running(self, request: ApiRequest) -> RunningAnswer:
        calls = self._state.running_calls.all()
        ids = {it.call: it.id for it in calls}
        queued = {it.call for it in self._runtime.executor.loop_state().limiter.waiting}

        def parent_of(call: Call) -> str | None:
            return None if call.parent is None else ids.get(call.parent)

        return {
            "now": time_ns() // 1000,
            "calls": [_view(it, it.call in queued, parent_of(it.call)) for it in calls],
        }

    async def cancel(self, request: ApiRequest) -> StateAnswer:
        id = request.parts["id"]
        running = self._state.running_calls.get(id)
        if running is None:
            raise RequestError(404, f"no call {id} is running; GET /api/running lists the running calls")
        if not self._runtime.executor.loop_state().stop(running.call, _STOPPED_BY):
            waits = running.call.phase or "what its tool needs"
            raise RequestError(409, f"call {id} has not started yet: it is waiting for {waits}")
        return {"state": "stopped"}

    async def replay(self, request: ApiRequest) -> ReplayAnswer:
        body: ReplayBody = request.body
        before = await self._state.read(lambda history: find_call(history, request.parts["id"]))
        arguments = arguments_of(before, body.get("set") or {}, _HOW)
        executor = self._runtime.executor
        try:
            prepared = await executor.find(before.tool)
        except CallError as error:
            raise RequestError(409, f"call {before.shown_id} cannot be made again: {error}") from None
        if prepared.effects is not Effects.NONE and not body.get("confirm"):
            raise RequestError(409, _question(before, prepared.effects))
        result = await executor.execute(before.tool, arguments)
        made = read_id(result.recorded_as or "")

        def compare(history: History) -> ReplayAnswer:
            after = history.call(made) if made is not None else _newest(history, before.tool)
            if after is None:
                raise RequestError(503, f"the call was made, but is not in the journal: {result.text}")
            outcomes = [(it.state, it.error_kind, it.result, it.error) for it in (before, after)]
            return {
                "same": outcomes[0] == outcomes[1],
                "before": view_row(summary_of(before), history.is_alive),
                "after": view_row(summary_of(after), history.is_alive),
                "result": result.shown,
                "error": result.error,
            }

        return await self._state.read(compare)


def _newest(history: History, tool: str) -> PastCall | None:
    """The last call of a tool: one that has no effects gets its id when it is written."""
    return next(iter(history.calls(tool=tool, limit=1)), None)


def _question(before: PastCall, effects: Effects | None) -> str:
    what = f"'{before.tool}' may act again (its effects are {effects or 'not declared'})"
    if before.state in (CallState.STARTED, CallState.IN_DOUBT) and before.settled_as is None:
        what += f"; call {before.shown_id} may have acted already, and nobody knows whether it did"
    return f'{what}: send "confirm": true to call it'


def _view(it: RunningCall, is_queued: bool, parent: str | None) -> RunningView:
    call, progress = it.call, it.progress
    is_waiting = call.loop is None or bool(call.phase)
    record: Any = call.record
    return {
        "id": it.id,
        "recorded_as": show_id(record.id) if record is not None else None,
        "tool": call.name if isinstance(call.name, str) else "",
        "caller_id": call.given_id,
        "started": it.started_at,
        "deadline": it.deadline_at,
        "state": "queued" if is_queued else "waiting" if is_waiting else "running",
        "phase": call.phase,
        "progress": None
        if progress is None
        else {"progress": progress.progress, "total": progress.total, "message": progress.message},
        "parent": parent,
    }
