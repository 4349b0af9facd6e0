"""Tools of MCP servers that are not the ones that were agreed to: what is different, and agreeing to it."""

from __future__ import annotations

from typing import (
    Final,
    Literal,
    NotRequired,  # pydantic, which needs it, brings it
)

from typing_extensions import TypedDict  # pydantic, which needs it, brings it

from toolrun.hidden_characters import reveal
from toolrun.server.api_state import ApiState
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError
from toolrun.text import shown_name

_BY: Final = "person:HTTP client"


class ChangeView(TypedDict):
    """A tool that changed since it was agreed to."""

    server: str
    tool: str
    parts: list[str]
    """What changed: `description`, `schema`, …"""
    held: bool
    """Whether it is neither offered nor called until it is accepted."""
    difference: str
    """A unified diff, in which hidden characters are shown."""
    hash: str
    """Of the tool as it is now."""


class TrustAnswer(TypedDict):
    """All changes that nobody has accepted."""

    changes: list[ChangeView]
    problem: str | None
    """Why it is not remembered what tools say of themselves."""


class AcceptBody(TypedDict):
    """That somebody has looked at it."""

    accept: Literal[True]
    hash: NotRequired[str]
    """Of what was looked at. If the tool is another one by now, nothing is accepted."""


class AcceptedAnswer(TypedDict):
    """What was agreed to."""

    server: str
    tool: str
    parts: list[str]


def trust_operations(state: ApiState) -> list[Operation]:
    runtime = state.runtime

    async def list_changes(request: ApiRequest) -> TrustAnswer:
        return {
            "changes": [
                {
                    "server": it.server,
                    "tool": it.tool,
                    "parts": it.parts,
                    "held": it.is_held,
                    "difference": it.difference,
                    "hash": it.after.hash,
                }
                for it in runtime.changes
            ],
            "problem": runtime.pin_problem or None,
        }

    async def accept(request: ApiRequest) -> AcceptedAnswer:
        server, tool = request.parts["server"], request.parts["tool"]
        change = next(
            (it for it in runtime.changes if it.server == server and tool in (it.tool, reveal(it.tool))), None
        )
        if change is None:
            raise RequestError(404, f"no tool '{shown_name(tool)}' of '{shown_name(server)}' has changed")
        if request.body.get("hash", change.after.hash) != change.after.hash:
            raise RequestError(409, f"'{shown_name(tool)}' has changed again; look at it once more")
        await runtime.accept(change, _BY)
        return {"server": change.server, "tool": change.tool, "parts": change.parts}

    return [
        Operation("GET", "/api/trust", list_changes, "List tools that changed since they were agreed to", TrustAnswer),
        Operation(
            "POST",
            "/api/trust/{server}/{tool}",
            accept,
            "Agree to what a tool has become",
            AcceptedAnswer,
            AcceptBody,
            failures={404: "This tool has not changed.", 409: "It has changed again since it was looked at."},
        ),
    ]
