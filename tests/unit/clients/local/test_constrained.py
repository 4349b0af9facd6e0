"""Tool calls by constrained output, without a model."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from toolrun.clients.local.constrained import (
    OutputParser,
    chat_messages,
    enforced_schema,
    function_definitions,
    output_schema,
)

TOOLS = function_definitions(
    [
        {
            "type": "function",
            "function": {
                "name": "set_light",
                "description": "Switch a light.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "room": {"enum": ["kitchen", "office"]},
                        "brightness": {"type": "integer", "minimum": 0, "maximum": 100, "description": "In percent."},
                    },
                    "required": ["room"],
                },
            },
        },
        {"type": "function", "function": {"name": "now"}},
    ]
)


@pytest.mark.parametrize(
    ("said", "is_allowed"),
    [
        ({"answer": "Hello."}, True),
        ({"tool": "set_light", "arguments": {"room": "office", "brightness": 5}}, True),
        ({"tool": "now", "arguments": {}}, True),
        ({"tool": "set_light", "arguments": {"room": "garage"}}, False),
        ({"tool": "set_light", "arguments": {"room": "office", "brightness": 500}}, False),
        ({"tool": "set_light", "arguments": {}}, False),
        ({"tool": "set_light", "arguments": {"room": "office", "colour": "red"}}, False),
        ({"tool": "nothing", "arguments": {}}, False),
        ({"tool": "set_light"}, False),
        ({"answer": "Hello.", "tool": "now"}, False),
    ],
)
def test_only_calls_of_the_tools_and_answers_can_be_said(said: Any, is_allowed: bool) -> None:
    assert jsonschema_rs.is_valid(output_schema(TOOLS), said) is is_allowed


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "^a", "maxLength": 10**9}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{"const": 1}, {"type": "boolean"}]}, {"anyOf": [{"const": 1}, {"type": "boolean"}]}),
        ({"type": "array", "items": {"$ref": "#/$defs/x"}}, {"type": "array", "items": {"type": "number"}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        ({"not": {"type": "string"}}, {}),
        ({"$ref": "http://elsewhere"}, {}),
        (True, {}),
    ],
)
def test_what_is_enforced_of_a_parameter(schema: Any, expected: Any) -> None:
    assert enforced_schema(schema, {"$defs": {"x": {"type": "number", "minimum": 0.5}}}, 1) == expected


def test_a_schema_without_end_is_enforced_to_some_depth() -> None:
    endless: Any = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    value: Any = {}
    for _ in range(50):
        value = {"next": value}
    assert jsonschema_rs.is_valid(enforced_schema(endless, endless), value)
    assert not jsonschema_rs.is_valid(enforced_schema(endless, endless), {"next": 5})


def test_the_conversation_takes_turns_and_begins_with_the_tools() -> None:
    call: Any = {"name": "now", "args": {"zone": "CET"}, "id": "1"}
    messages = [
        SystemMessage("Be brief."),
        HumanMessage("Hello"),
        AIMessage("Hi."),
        HumanMessage("What time is it?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("12:00", tool_call_id="1", name="now"),
        HumanMessage("Well?"),
    ]
    system, *turns = chat_messages(messages, TOOLS)
    assert system["role"] == "system"
    assert system["content"].startswith("Be brief.\n\nReply with exactly one JSON object")
    assert "set_light: Switch a light.\n" in system["content"]
    assert "brightness (integer): In percent." in system["content"]
    assert turns == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": '{"answer": "Hi."}'},
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": '{"tool": "now", "arguments": {"zone": "CET"}}'},
        {"role": "user", "content": "Result of now: 12:00\n\nWell?"},
    ]


def test_without_tools_it_is_plain_text() -> None:
    assert chat_messages([HumanMessage("Hello"), AIMessage("Hi.")], []) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
    ]


@given(text=st.text(), ascii=st.booleans(), spaces=st.sampled_from(["", " ", "\n  "]), cuts=st.data())
def test_an_answer_is_read_while_it_is_said(text: str, ascii: bool, spaces: str, cuts: st.DataObject) -> None:
    said = f'{{{spaces}"answer"{spaces}:{spaces}{json.dumps(text, ensure_ascii=ascii)}{spaces}}}'
    parser, heard = OutputParser(), ""
    while said:
        size = cuts.draw(st.integers(1, len(said)))
        heard += parser.feed(said[:size])
        said = said[size:]
    assert heard == text
    assert parser.tool_call() is None


def test_a_call_is_read_at_its_end() -> None:
    parser = OutputParser()
    said = '{ "tool": "set_light", "arguments": {"room": "office", "note": "\\"}"} }'
    assert "".join(parser.feed(letter) for letter in said) == ""
    assert parser.tool_call() == ("set_light", '{"room": "office", "note": "\\"}"}')


def test_of_a_call_that_is_cut_off_the_arguments_are_what_was_said() -> None:
    parser = OutputParser()
    parser.feed('{"tool": "set_light", "arguments": {"room": "off')
    assert parser.tool_call() == ("set_light", '{"room": "off')
    assert OutputParser().tool_call() is None
