"""The form in which an MCP client shows a request for approval, and what its answer says. Pure.

The form is the same in both eras of the protocol. A client may show its message to a person as it is, so everything in
it that a tool or a model has written stands in one line, with hidden characters escaped: nobody can add a line to it.
Secrets that a tool puts into the arguments of another are not shown; such arguments cannot be changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from toolrun.execution.approval import Allow, Answer, ApprovalRequest, Deny, Scope
from toolrun.json import JSON, dumps
from toolrun.schema.reading import RepeatedKeyError, read_json
from toolrun.text import cut, one_line

ALLOW_ONCE: Final = "allow once"
ALLOW_ALWAYS: Final = "allow always"
DENY: Final = "deny"
_MAX_CHARS: Final = 4_000
"""Of arguments that are shown. Longer ones are cut, and cannot be changed in the form."""
_MAX_NAME: Final = 200
_DECLINED: Final = "the user declined"

Form = dict[str, Any]


def make_form(request: ApprovalRequest) -> Form:
    """The parameters of `elicitation/create` that ask about a call."""
    text, is_whole = _shown_json(request.arguments if request.shown is None else request.shown)
    lines = [f"May the tool '{_short(request.tool)}' be called?"]
    if request.source:
        lines.append(f"It comes from: {_short(request.source)}")
    if request.reason:
        lines.append(f"You are asked because: {_short(request.reason)}")
    lines.append(f"Arguments: {text}")
    properties: dict[str, Any] = {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "'allow always' holds for later calls of this tool with exactly these arguments.",
            "enum": [ALLOW_ONCE, ALLOW_ALWAYS, DENY],
        },
        "reason": {"type": "string", "title": "Reason", "description": "If you deny it: the message to the model."},
    }
    if is_whole and request.shown is None:
        properties["arguments"] = {
            "type": "string",
            "title": "Arguments",
            "description": "If you allow it: the arguments as JSON. Change them, and the tool gets the changed ones.",
            "default": text,
        }
    schema = {"type": "object", "properties": properties, "required": ["decision"]}
    return {"mode": "form", "message": "\n".join(lines), "requestedSchema": schema}


def read_answer(response: object, request: ApprovalRequest, by: str) -> Answer | None:
    """What a client answered to the form, an `ElicitResult`; None if that is no answer.

    Only a form that says so allows a call: not every client shows the form before it accepts.
    """
    match response:
        case {"action": "decline" | "cancel"}:
            return Deny(_DECLINED, by=by)
        case {"action": "accept", **rest}:
            content = rest.get("content")
        case _:
            return None
    if not isinstance(content, Mapping):
        content = {}
    match content.get("decision"):
        case "deny":
            reason = content.get("reason")
            return Deny(reason.strip() if isinstance(reason, str) and reason.strip() else _DECLINED, by=by)
        case "allow once" | "allow always" as decision:
            scope = Scope.ALWAYS if decision == ALLOW_ALWAYS else Scope.ONCE
        case _:
            return Deny("the answer did not say that it is allowed", by=by)
    try:
        changed = _changed(content.get("arguments"), request.arguments)
        if changed is not None and request.shown is not None:
            raise ValueError("there is a secret in them, which was not shown")
        return Allow(scope, changed, by=by)
    except ValueError as error:
        return Deny(f"its arguments were changed to something that cannot be used: {error}", by=by)


def request_state(request: ApprovalRequest) -> str:
    """What a client sends back with its answer: which request it has answered.

    The number alone is not enough: without a journal, another server process counts from 1 again.
    """
    exact = dumps([request.tool, request.source, request.definition, dict(request.arguments)], sort_keys=True)
    return f"{request.id}.{hashlib.sha256(exact).hexdigest()[:32]}"


def client_label(name: object) -> str:
    """Who answered, for the journal."""
    return f"MCP client {_short(name)}" if isinstance(name, str) and name else "an MCP client"


def _changed(text: object, arguments: Mapping[str, JSON]) -> Mapping[str, JSON] | None:
    """The arguments of the form, if they are others. Raises ValueError if they are no JSON object."""
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        given = read_json(text)
    except RepeatedKeyError as error:
        raise ValueError(str(error)) from None
    except ValueError:
        raise ValueError("they are not JSON") from None
    if not isinstance(given, dict):
        raise ValueError("they are not a JSON object")
    if dumps(given, sort_keys=True) == dumps(dict(arguments), sort_keys=True):
        return None
    return given


def _shown_json(arguments: Mapping[str, JSON]) -> tuple[str, bool]:
    """The arguments as JSON in which every hidden character is escaped, and whether that is all of them.

    If it is, it reads as exactly the same arguments.
    """
    text = dumps(dict(arguments)).decode()
    shown = text[: _MAX_CHARS + 1]  # more of it would take long, and nobody would see it
    if not shown.isprintable():
        shown = "".join(it if it.isprintable() else json.dumps(it)[1:-1] for it in shown)
    if len(shown) <= _MAX_CHARS:
        return shown, True
    return f"{shown[:_MAX_CHARS]}… ({len(text):,} characters)", False


def _short(text: str) -> str:
    return cut(one_line(text), _MAX_NAME)
