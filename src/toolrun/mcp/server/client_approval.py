"""Asks the person behind an MCP client whether a call may be made, in the way of the client's era.

    older era    the client is asked while its call waits (`elicitation/create`)
    newer era    the call ends and is answered with the question (`InputRequiredResult`); the request stays open, in the
                 journal, and the client repeats the call together with the answer, to this process or a later one

A client that has not declared that it can show forms is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    ElicitationCapability,
)
from pydantic import ValidationError

from toolrun.execution.approval import Answer, ApprovalRequest, CallerLeftError
from toolrun.logger import get_logger
from toolrun.mcp.server.announcements import Context
from toolrun.mcp.server.approval_form import client_label, make_form, read_answer, request_state
from toolrun.tools.context import current_call

logger = get_logger("toolrun.serve")

APPROVAL_FIELDS: Final = frozenset({"inputResponses", "requestState"})
"""Of the parameters of a call: what a client says about approval."""
_NAME: Final = "approval"
"""Of the one question in an `InputRequiredResult`."""


class AskingClient:
    """Asks a client of the older era about its call, and waits. To be used as `on_approval`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.is_gone = False
        """Whether the client left while it was asked."""

    async def __call__(self, request: ApprovalRequest) -> Answer | None:
        asking = asyncio.create_task(self._ask(request))
        leaving = asyncio.create_task(self._leave())
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if asking.done() and not self.is_gone:
                return asking.result()
        finally:
            asking.cancel()
            leaving.cancel()
            await asyncio.wait([asking, leaving])
        self.is_gone = True
        raise CallerLeftError

    async def _ask(self, request: ApprovalRequest) -> Answer | None:
        session, form = self._ctx.session, make_form(request)
        name = session.client_params.client_info.name if session.client_params is not None else None
        try:
            said = await session.elicit_form(form["message"], form["requestedSchema"], self._ctx.request_id)
        except (MCPError, ValidationError) as error:
            self.is_gone = isinstance(error, MCPError) and _is_of_connection(error)
            if not self.is_gone:
                logger.warning("'%s' needs approval, and the client gave no answer: %s", request.tool, error)
            return None
        return read_answer(said.model_dump(), request, client_label(name))

    async def _leave(self) -> None:
        """Return when a client over HTTP is gone. In the older era, that does not end its calls."""
        request = self._ctx.request
        if request is None:
            await asyncio.Event().wait()
            return
        while (await request.receive())["type"] != "http.disconnect":
            pass


class ParkedCall:
    """A call of a client of the newer era, with what it says about approval. To be used as `on_approval`."""

    def __init__(self, client: object, responses: Mapping[str, Any] | None, state: str | None) -> None:
        self._client = client
        self._response = (responses or {}).get(_NAME)
        self._state = state
        self._asked: ApprovalRequest | None = None

    async def __call__(self, request: ApprovalRequest) -> Answer | None:
        if current_call.get() is not None:
            return None  # of a tool that this call runs: to repeat the call would run that one twice
        if self._response is not None and self._state == request_state(request):
            answer = read_answer(self._response, request, client_label(self._client))
            if answer is not None:
                return answer
        self._asked = request
        return None

    def question(self) -> dict[str, Any] | None:
        """The `InputRequiredResult`, if the call waits for an answer."""
        if self._asked is None:
            return None
        question = {"method": "elicitation/create", "params": make_form(self._asked)}
        return {
            "resultType": "input_required",
            "inputRequests": {_NAME: question},
            "requestState": request_state(self._asked),
        }


def asking_client(ctx: Context) -> AskingClient | None:
    """For a client of the older era, if it can be asked."""
    capabilities = ctx.session.client_capabilities
    return AskingClient(ctx) if capabilities is not None and _has_forms(capabilities.elicitation) else None


def parked_call(params: Mapping[str, Any], meta: Mapping[str, Any]) -> ParkedCall | None:
    """For a call of the newer era, if its client can be asked. `meta` says what the client can do."""
    capabilities = meta.get(CLIENT_CAPABILITIES_META_KEY)
    modes = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(modes, dict) or (modes.get("url") is not None and modes.get("form") is None):
        return None
    info = meta.get(CLIENT_INFO_META_KEY)
    name = info.get("name") if isinstance(info, dict) else None
    return ParkedCall(name, params.get("inputResponses"), params.get("requestState"))


def is_well_formed(params: Mapping[str, Any]) -> bool:
    """Whether what a call says about approval can be read."""
    responses, state = params.get("inputResponses"), params.get("requestState")
    return (responses is None or isinstance(responses, dict)) and (state is None or isinstance(state, str))


def _is_of_connection(error: MCPError) -> bool:
    """Whether the SDK says that the connection is closed. Clients use the same code for errors of their own."""
    return error.error.code == CONNECTION_CLOSED and error.error.message == "Connection closed"


def _has_forms(capability: ElicitationCapability | None) -> bool:
    """A client that names no mode has forms, the only ones that there were at first."""
    return capability is not None and (capability.form is not None or capability.url is None)
