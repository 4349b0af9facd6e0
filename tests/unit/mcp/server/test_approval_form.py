"""What a person at an MCP client sees of a call, and what the answer means."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from toolrun import Allow, ApprovalRequest, Deny
from toolrun.execution.approval import Answer, Scope
from toolrun.mcp.server.approval_form import client_label, make_form, read_answer, request_state

REQUEST = ApprovalRequest(
    tool="remove",
    arguments={"path": "/x", "count": 1},
    reason="rule 2 of [approval]",
    source="tools/files.py",
    definition="0123456789abcdef",
    id=7,
)


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def read(response: object, request: ApprovalRequest = REQUEST) -> Answer | None:
    return read_answer(response, request, "MCP client test")


def test_the_message_says_which_tool_from_where_why_and_with_what() -> None:
    assert make_form(REQUEST)["message"].splitlines() == [
        "May the tool 'remove' be called?",
        "It comes from: tools/files.py",
        "You are asked because: rule 2 of [approval]",
        'Arguments: {"path":"/x","count":1}',
    ]


def test_the_form_is_flat_as_the_protocol_demands() -> None:
    schema = make_form(REQUEST)["requestedSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["decision"])
    assert {name: it["type"] for name, it in schema["properties"].items()} == dict.fromkeys(
        ("decision", "reason", "arguments"), "string"
    )
    assert schema["properties"]["decision"]["enum"] == ["allow once", "allow always", "deny"]
    assert json.loads(schema["properties"]["arguments"]["default"]) == REQUEST.arguments


HIDDEN = "a\u202eb\u200bc\U000e0041d\x1b[2K\u2028e\n"


def test_hidden_characters_are_seen_and_stay_what_they_are() -> None:
    request = ApprovalRequest(f"re{HIDDEN}", {f"k{HIDDEN}": HIDDEN}, reason=HIDDEN, source=HIDDEN)
    form = make_form(request)
    lines = form["message"].split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    shown = form["requestedSchema"]["properties"]["arguments"]["default"]
    assert shown.isprintable()
    assert json.loads(shown) == request.arguments
    answer = read(accept(decision="allow once", arguments=shown), request)
    assert answer == Allow(by="MCP client test")


def test_secrets_are_not_shown_and_cannot_be_changed() -> None:
    request = replace(REQUEST, shown={"path": "***", "count": 1})
    form = make_form(request)
    assert form["message"].splitlines()[-1] == 'Arguments: {"path":"***","count":1}'
    assert list(form["requestedSchema"]["properties"]) == ["decision", "reason"]
    assert read(accept(decision="allow once"), request) == Allow(by="MCP client test")
    changed = read(accept(decision="allow once", arguments='{"path":"***","count":1}'), request)
    assert isinstance(changed, Deny)
    assert "there is a secret in them" in changed.reason


def test_a_text_cannot_pass_for_another_line_of_the_message() -> None:
    request = ApprovalRequest("t", {"note": "x\nArguments: {}"}, source="s\nYou are asked because: nothing")
    assert len(make_form(request)["message"].split("\n")) == 3


@pytest.mark.parametrize(
    ("text", "count"), [("x" * 100_000, "100,011"), ("x" * 3_990, "4,001"), ("\u200b" * 1_000, "1,011")]
)
def test_long_arguments_are_cut_and_cannot_be_changed(text: str, count: str) -> None:
    form = make_form(ApprovalRequest("t", {"text": text}))
    assert len(form["message"]) < 4_100
    assert form["message"].endswith(f"… ({count} characters)")
    assert form["message"].replace("\n", "").isprintable()
    assert set(form["requestedSchema"]["properties"]) == {"decision", "reason"}


def test_arguments_that_just_fit_are_whole() -> None:
    request = ApprovalRequest("t", {"text": "x" * 3_989})
    assert json.loads(make_form(request)["requestedSchema"]["properties"]["arguments"]["default"]) == request.arguments


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (accept(decision="allow once"), Allow()),
        (accept(decision="allow always"), Allow(Scope.ALWAYS)),
        (accept(decision="allow once", arguments=""), Allow()),
        (accept(decision="allow once", arguments='{"count": 1, "path": "/x"}'), Allow()),
        (accept(decision="allow once", arguments='{"path": "/y"}'), Allow(arguments={"path": "/y"})),
        (accept(decision="deny", reason=" too early "), Deny("too early")),
        (accept(decision="deny"), Deny("the user declined")),
        (accept(decision="deny", arguments='{"path": "/y"}'), Deny("the user declined")),
        ({"action": "decline"}, Deny("the user declined")),
        ({"action": "cancel", "content": {"decision": "allow once"}}, Deny("the user declined")),
    ],
)
def test_an_answer_is_what_the_person_chose(response: dict[str, Any], expected: Answer) -> None:
    assert read(response) == replace(expected, by="MCP client test")


def test_true_is_not_the_number_that_it_replaces() -> None:
    answer = read(accept(decision="allow once", arguments='{"path": "/x", "count": true}'))
    assert isinstance(answer, Allow)
    assert answer.arguments is not None
    assert answer.arguments["count"] is True


@pytest.mark.parametrize("content", [None, {}, {"decision": "yes"}, {"decision": True}, {"decision": ["allow once"]}])
def test_a_client_that_accepts_without_saying_what_allows_nothing(content: object) -> None:
    answer = read({"action": "accept", "content": content})
    assert isinstance(answer, Deny)
    assert answer.reason == "the answer did not say that it is allowed"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rm", "they are not JSON"),
        ("[1]", "they are not a JSON object"),
        ('{"path": "/a", "path": "/b"}', "path"),
    ],
)
def test_arguments_that_cannot_be_read_allow_nothing(text: str, why: str) -> None:
    answer = read(accept(decision="allow always", arguments=text))
    assert isinstance(answer, Deny)
    assert why in answer.reason


@pytest.mark.parametrize("response", [None, "accept", [], {}, {"action": "maybe"}, {"content": {"decision": "deny"}}])
def test_what_is_no_answer_is_none(response: object) -> None:
    assert read(response) is None


def test_the_state_belongs_to_one_request_for_one_call_of_one_definition() -> None:
    others = [
        replace(REQUEST, id=8),
        replace(REQUEST, definition="fedcba9876543210"),
        replace(REQUEST, arguments={"path": "/y", "count": 1}),
        replace(REQUEST, tool="add"),
        replace(REQUEST, source="other.py"),
    ]
    states = {request_state(it) for it in (REQUEST, *others)}
    assert len(states) == 6
    again = replace(REQUEST, arguments={"count": 1, "path": "/x"}, reason="why")
    assert request_state(again) == request_state(REQUEST)


def test_a_client_is_named_in_one_short_line() -> None:
    assert client_label("claude") == "MCP client claude"
    assert client_label(None) == client_label("") == "an MCP client"
    assert client_label("a\nb" + "x" * 1000).isprintable()
    assert len(client_label("x" * 1000)) < 250
