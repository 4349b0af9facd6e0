"""Requests for approval over HTTP: what waits, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,  # pydantic, which needs it, brings it
)

from typing_extensions import TypedDict

from toolrun.errors import CallError, InvalidArgumentsError
from toolrun.execution.approval import CHANGED, Allow, Answer, Deny, Scope, change_arguments
from toolrun.json import JSON
from toolrun.schema.reading import RepeatedKeyError, read_json
from toolrun.server.api_state import ApiState
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError
from toolrun.text import show
from toolrun.tools.context import Call
from toolrun.trust.approvals import Approvals

_MAX_ID: Final = 2**63


class ApprovalView(TypedDict):
    """A request, and its answer if it has one."""

    id: int
    state: str
    tool: str
    source: str
    arguments: Any
    text: str
    """The arguments as JSON text: not every browser reads a number with many digits as what it is."""
    withheld: str | None
    """`hidden` or `cut`: why the arguments are not all there."""
    reason: str
    conversation: str | None
    consumer: str
    asked_at: float
    """In seconds since 1970, as the other times."""
    expires_at: float | None
    scope: str | None
    edited: Any
    comment: str | None
    answered_by: str | None
    answered_at: float | None


class ApprovalsAnswer(TypedDict):
    """What waits for an answer, and answers that can still be used."""

    approvals: list[ApprovalView]


class ApprovalBody(TypedDict):
    """An answer to a request."""

    answer: Literal["allow", "deny"]
    scope: NotRequired[Literal["once", "conversation", "always"]]
    arguments: NotRequired[dict[str, Any] | str | None]
    """An object, or JSON text of one."""
    reason: NotRequired[str]
    by: NotRequired[str]


class ApprovalState(TypedDict):
    """What has become of a request."""

    id: int
    state: str


def approval_operations(state: ApiState) -> list[Operation]:
    routes = _ApprovalRoutes(state)
    missing, too_late = {404: "There is no such request."}, {409: "It is answered already."}
    path = "/api/approvals/{id}"
    return [
        Operation("GET", "/api/approvals", routes.list_open, "List requests for approval", ApprovalsAnswer),
        Operation(
            "POST",
            path,
            routes.answer,
            "Answer a request",
            ApprovalState,
            ApprovalBody,
            failures={**missing, **too_late},
        ),
        Operation("DELETE", path, routes.revoke, "Take an answer back", ApprovalState, failures=missing),
    ]


class _ApprovalRoutes:
    def __init__(self, state: ApiState) -> None:
        self._runtime = state.runtime

    @property
    def _approvals(self) -> Approvals:
        approvals = self._runtime.approvals
        assert approvals is not None  # the runtime is open
        return approvals

    async def list_open(self, request: ApiRequest) -> dict[str, Any]:
        return {"approvals": [{**row.to_dict(), "text": row.arguments} for row in await self._approvals.open()]}

    async def answer(self, request: ApiRequest) -> dict[str, Any]:
        id, answer = _id(request), _read_answer(request.body)
        if isinstance(answer, Allow) and answer.arguments is not None:
            await self._check_edit(id, answer.arguments)
        problem = await self._approvals.answer(id, answer)
        if problem is not None:
            raise RequestError(404 if problem == "does not exist" else 409, f"the request {id} {problem}")
        return {"id": id, "state": "allowed" if isinstance(answer, Allow) else "denied"}

    async def _check_edit(self, id: int, arguments: Mapping[str, JSON]) -> None:
        """Refuse arguments that the tool cannot take, and those of somebody who has not seen all that they replace."""
        row = next((it for it in await self._approvals.open() if it.id == id), None)
        if row is None:
            return  # the answer says why that is too late
        if row.withheld is not None:
            why = "have a secret in them" if row.withheld == "hidden" else "are too long for the journal"
            raise RequestError(400, f"the arguments of request {id} {why}, so they cannot be changed here")
        executor = self._runtime.executor
        trial = Call(executor, row.tool, {}, None)
        try:
            change_arguments(trial, await executor.find(row.tool), arguments)
        except InvalidArgumentsError as error:
            raise RequestError(400, str(error).removeprefix(CHANGED)) from None
        except CallError:
            return  # the tool is not there now; the call will be checked

    async def revoke(self, request: ApiRequest) -> dict[str, Any]:
        id = _id(request)
        if not await self._approvals.revoke(id):
            raise RequestError(404, f"there is no answer {id} that could be taken back")
        return {"id": id, "state": "revoked"}


def _id(request: ApiRequest) -> int:
    text = request.parts["id"]
    if not text.isascii() or not text.isdecimal() or int(text) >= _MAX_ID:
        raise RequestError(404, f"there is no request {show(text)}: requests have numbers")
    return int(text)


def _read_answer(body: ApprovalBody) -> Answer:
    scope, by = Scope(body.get("scope", "once")), f"HTTP client {body.get('by', '')}".strip()
    if body["answer"] == "allow":
        return Allow(scope, _read_arguments(body.get("arguments")), by=by)
    return Deny(body.get("reason", ""), scope, by=by)


def _read_arguments(given: dict[str, Any] | str | None) -> dict[str, Any] | None:
    if not isinstance(given, str):
        return given
    try:
        arguments = read_json(given)
    except RepeatedKeyError as error:
        raise RequestError(400, f"the arguments cannot be used: {error}") from None
    except ValueError:
        raise RequestError(400, "the arguments are not JSON") from None
    if not isinstance(arguments, dict):
        raise RequestError(400, "the arguments are not a JSON object")
    return arguments
