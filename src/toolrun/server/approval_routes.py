"""Requests for approval over HTTP: what waits, and the answers.

GET    /api/approvals       what waits for an answer, and answers that can still be used
POST   /api/approvals/ID    {"answer": "allow" | "deny", "scope", "arguments", "reason", "by"}
DELETE /api/approvals/ID    takes an answer back
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from toolrun.errors import CallError, InvalidArgumentsError
from toolrun.execution.approval import CHANGED, Allow, Answer, Deny, Scope, change_arguments
from toolrun.json import JSON
from toolrun.runtime import Runtime
from toolrun.server.request_error import RequestError
from toolrun.text import show
from toolrun.tools.context import Call
from toolrun.trust.approvals import Approvals

_KEYS: Final = ("answer", "scope", "arguments", "reason", "by")
_MAX_ID: Final = 2**63


class ApprovalRoutes:
    """The routes, by path and method."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.routes: dict[str, dict[str, Any]] = {
            "/api/approvals": {"GET": self._list},
            "/api/approvals/{id}": {"POST": self._answer, "DELETE": self._revoke},
        }

    @property
    def _approvals(self) -> Approvals:
        approvals = self._runtime.approvals
        assert approvals is not None  # the runtime is open
        return approvals

    async def _list(self, request: Request, _: Any) -> dict[str, Any]:
        return {"approvals": [row.to_dict() for row in await self._approvals.open()]}

    async def _answer(self, request: Request, body: Any) -> dict[str, Any]:
        id, answer = _id(request), _read_answer(body)
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

    async def _revoke(self, request: Request, _: Any) -> dict[str, Any]:
        id = _id(request)
        if not await self._approvals.revoke(id):
            raise RequestError(404, f"there is no answer {id} that could be taken back")
        return {"id": id, "state": "revoked"}


def _id(request: Request) -> int:
    text = str(request.path_params["id"])
    if not text.isascii() or not text.isdecimal() or int(text) >= _MAX_ID:
        raise RequestError(404, f"there is no request {show(text)}: requests have numbers")
    return int(text)


def _read_answer(body: Any) -> Answer:
    """What a client says. Raises RequestError."""
    if not isinstance(body, dict):
        raise RequestError(400, 'send an object: {"answer": "allow"} or {"answer": "deny"}')
    unknown = [name for name in body if name not in _KEYS]
    if unknown:
        raise RequestError(400, f"unknown key {show(unknown[0])}; known are {', '.join(_KEYS)}")
    said, scope = body.get("answer"), body.get("scope", Scope.ONCE)
    if scope not in tuple(Scope):
        raise RequestError(400, f"scope must be one of {', '.join(Scope)}; got {show(scope)}")
    for name in ("reason", "by"):
        if not isinstance(body.get(name, ""), str):
            raise RequestError(400, f"{name} must be a string; got {show(body[name])}")
    arguments, by = body.get("arguments"), f"HTTP client {body.get('by', '')}".strip()
    if arguments is not None and not isinstance(arguments, dict):
        raise RequestError(400, f"arguments must be an object; got {show(arguments)}")
    if said == "allow":
        return Allow(scope, arguments, by=by)
    if said == "deny":
        return Deny(body.get("reason", ""), scope, by=by)
    raise RequestError(400, f'answer must be "allow" or "deny"; got {show(said)}')
