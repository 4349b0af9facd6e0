"""Calls that may have acted and of which nobody knows whether they did: what they are, and what settles them."""

from __future__ import annotations

import asyncio
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,  # pydantic, which needs it, brings it
)

from typing_extensions import TypedDict

from toolrun.errors import CallError
from toolrun.journal.call_record import read_id
from toolrun.journal.history import History, PastCall
from toolrun.journal.past_call import arguments_of, doubt_of
from toolrun.journal.recorder import CallRecorder
from toolrun.journal.stored_answer import write_answer
from toolrun.journal.verification import Finding, Verdict, can_verify
from toolrun.json import dumps
from toolrun.result import ToolResult, normalise
from toolrun.server.api_state import ApiState
from toolrun.server.call_view import CallRow, summary_of, view_row
from toolrun.server.history_routes import MISSING_CALL, find_call
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError

_BY: Final = "person:HTTP client"
_HOW: Final = 'arguments: {"arguments": {NAME: VALUE}}'
_UNSETTLED: Final = {
    Verdict.TOO_EARLY: "has not acted so far, but it may still be running; ask again later",
    Verdict.UNKNOWN: "stays in doubt: its 'verify' cannot say whether it happened",
}


class EffectView(TypedDict):
    """A call in doubt."""

    call: CallRow
    known: str
    """Why nobody knows whether it has acted."""
    may_act: bool
    """Whether it may still be running somewhere."""
    can_verify: bool
    """Whether its tool can be asked what happened."""


class EffectsAnswer(TypedDict):
    """The calls in doubt, the oldest first."""

    effects: list[EffectView]


class SettleBody(TypedDict):
    """What became of a call."""

    settle: Literal["done", "not_done", "verify"]
    result: NotRequired[Any]
    """With `done`: what the call returned, for whoever repeats its key."""
    force: NotRequired[bool]
    """With `not_done`: believe it although the call may still be running."""
    arguments: NotRequired[dict[str, Any]]
    """With `verify`: arguments that are not on record."""


class SettledAnswer(TypedDict):
    """What is known now."""

    id: str
    state: str
    """`done` or `not_done`."""
    result: Any


def effect_operations(state: ApiState) -> list[Operation]:
    routes = _EffectRoutes(state)
    return [
        Operation("GET", "/api/effects", routes.list_effects, "List the calls in doubt", EffectsAnswer),
        Operation(
            "POST",
            "/api/effects/{id}",
            routes.settle,
            "Say what became of a call in doubt",
            SettledAnswer,
            SettleBody,
            failures={
                **MISSING_CALL,
                409: "It is not in doubt, may still be running, or nobody can say what happened.",
            },
        ),
    ]


class _EffectRoutes:
    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._runtime = state.runtime

    async def list_effects(self, request: ApiRequest) -> EffectsAnswer:
        def look(history: History) -> list[tuple[PastCall, CallRow, bool]]:
            calls = history.in_doubt()
            return [(it, view_row(summary_of(it), history.is_alive), history.may_act(it)) for it in calls]

        found = await self._state.read(look)
        return {
            "effects": [
                {
                    "call": {**row, "outcome": "in_doubt"},
                    "known": doubt_of(call),
                    "may_act": may_act,
                    "can_verify": await self._can_verify(call.tool),
                }
                for call, row, may_act in found
            ]
        }

    async def _can_verify(self, tool: str) -> bool:
        if tool not in self._runtime.manager:
            return False
        try:
            return can_verify(await self._runtime.executor.find(tool))
        except CallError:
            return False

    async def settle(self, request: ApiRequest) -> SettledAnswer:
        body: SettleBody = request.body
        said, id = body["settle"], request.parts["id"]
        for name, needed in (("result", "done"), ("force", "not_done"), ("arguments", "verify")):
            if body.get(name) and said != needed:
                raise RequestError(400, f'{name} is for "settle": "{needed}"')

        def look(history: History) -> tuple[PastCall, bool, str, bool]:
            call = find_call(history, id)
            return call, history.may_act(call), history.idempotency_key(call), history.is_running(call)

        call, may_act, key, is_running = await self._state.read(look)
        if is_running:
            raise RequestError(409, f"call {id} is still running")
        if call.state not in ("in_doubt", "started") or call.settled_as is not None:
            how = (
                f"was settled before, as {call.settled_as}"
                if call.settled_as
                else f"is not in doubt: it is {call.state}"
            )
            raise RequestError(409, f"call {id} {how.replace('_', ' ')}")
        if said == "verify":
            return await self._verify(call, key, body)
        if said == "not_done" and may_act and not body.get("force"):
            raise RequestError(409, f'call {id} may still be running, so it may act yet: wait, or send "force": true')
        return await self._write(call, body)

    async def _write(self, call: PastCall, body: SettleBody) -> SettledAnswer:
        journal = self._runtime.journal
        assert journal is not None  # the call was read from it
        text = answer = None
        if "result" in body:
            text = dumps(body["result"]).decode()
            answer = write_answer(ToolResult(call.tool, normalise(body["result"]))) if call.has_key else None
        id = read_id(call.shown_id)
        assert id is not None
        problem = await asyncio.wrap_future(journal.settle(id, body["settle"], _BY, text, answer))
        if problem is not None:
            raise RequestError(409, f"call {call.shown_id} {problem}")
        return {"id": call.shown_id, "state": body["settle"], "result": body.get("result")}

    async def _verify(self, call: PastCall, key: str, body: SettleBody) -> SettledAnswer:
        recorder, executor = self._runtime.executor.recorder, self._runtime.executor
        assert isinstance(recorder, CallRecorder)  # there is a journal
        arguments = arguments_of(call, body.get("arguments") or {}, _HOW)
        try:
            prepared = await executor.find(call.tool)
        except CallError as error:
            raise RequestError(409, f"call {call.shown_id} cannot be verified: {error}") from None
        if not can_verify(prepared):
            raise RequestError(409, f"call {call.shown_id} cannot be verified: '{call.tool}' has no 'verify'")
        finding = await recorder.verification.settle(
            executor, prepared, call.as_attempt, key, arguments, prepared.timeout
        )
        return _found(call, finding)


def _found(call: PastCall, finding: Finding) -> SettledAnswer:
    if finding.problem is not None:
        raise RequestError(409, f"call {call.shown_id} {finding.problem}")
    if finding.verdict in _UNSETTLED:
        raise RequestError(409, f"call {call.shown_id} {_UNSETTLED[finding.verdict]}")
    return {"id": call.shown_id, "state": finding.verdict.value, "result": finding.result}
