"""What a server lists, read leniently."""

from __future__ import annotations

import pytest

from toolrun.mcp.client.json_rpc import RpcError
from toolrun.mcp.client.session import Listed, answer, read_tool


def test_a_tool_has_what_is_listed_of_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    entry = {
        "name": "add",
        "title": "Add",
        "description": "Add numbers.",
        "inputSchema": schema,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "icons": [],
    }
    tool = Listed("add", "Add numbers.", schema, "Add", {"type": "object"}, {"readOnlyHint": True})
    assert read_tool(entry, "s") == (tool, "")


@pytest.mark.parametrize(
    ("entry", "description"),
    [
        ({"description": "  "}, "The tool 'add' of the server 's'."),
        ({}, "The tool 'add' of the server 's'."),
        ({"title": "Add up"}, "Add up"),
        ({"annotations": {"title": "Add up"}}, "Add up"),
        ({"description": 5, "title": [], "annotations": 7, "outputSchema": "x"}, "The tool 'add' of the server 's'."),
    ],
)
def test_what_is_missing_is_made_up(entry: dict[str, object], description: str) -> None:
    tool, fault = read_tool({"name": "add", **entry}, "s")
    assert fault == ""
    assert tool is not None
    assert tool.description == description
    assert tool.schema == {"type": "object"}
    assert tool.output_schema is None


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "no description of a tool"),
        ([], "no description of a tool"),
        ({}, "no name"),
        ({"name": 5}, "no name"),
        ({"name": "x", "inputSchema": None}, "describes no object"),
        ({"name": "x", "inputSchema": {"type": ["object", "null"]}}, "describes no object"),
    ],
)
def test_what_is_no_tool_is_refused_with_the_reason(entry: object, words: str) -> None:
    tool, fault = read_tool(entry, "s")
    assert tool is None
    assert words in fault


def test_nothing_is_offered_to_servers_but_that_we_are_there() -> None:
    assert answer("ping", {}) == {}
    for method in ("sampling/createMessage", "elicitation/create", "roots/list", "what/ever"):
        with pytest.raises(RpcError):
            answer(method, {})
