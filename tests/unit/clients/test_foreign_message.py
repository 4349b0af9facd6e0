"""Histories of other programs as LangChain's messages."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from toolrun.clients.foreign_message import read_messages
from toolrun.errors import UsageError


class Block:
    """A block of an SDK."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self.fields


USE = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}], "is_error": True}


@pytest.mark.parametrize("make", [dict, Block], ids=["dicts", "objects"])
def test_messages_of_anthropics_sdk(make: Any) -> None:
    asked, result, question = read_messages(
        [
            {"role": "assistant", "content": [make(type="text", text="Hm."), make(**USE)]},
            {"role": "user", "content": [make(**RESULT), make(type="text", text="And?")]},
        ]
    )
    assert isinstance(asked, AIMessage)
    assert (asked.content, asked.tool_calls) == (
        "Hm.",
        [{"name": "add", "args": {"a": 1}, "id": "t1", "type": "tool_call"}],
    )
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.status, result.text) == ("t1", "error", "2")
    assert (type(question), question.text) == (HumanMessage, "And?")


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "null", None, "", [1], 7])
def test_calls_of_openai_are_kept_whatever_their_arguments_are(arguments: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    asked, result = read_messages(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ]
    )
    assert isinstance(asked, AIMessage)
    calls: list[Any] = list(asked.tool_calls) + list(asked.invalid_tool_calls)
    [kept] = calls
    assert (kept["name"], kept["id"]) == ("add", "c1")
    assert isinstance(result, ToolMessage)


def test_results_without_ids_belong_to_the_call_of_that_name() -> None:
    call = {"function": {"name": "add", "arguments": {"a": 1}}}
    asked, result = read_messages(
        [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_name": "add", "content": "2"}]
    )
    assert isinstance(asked, AIMessage)
    assert isinstance(result, ToolMessage)
    assert asked.tool_calls[0]["id"] == result.tool_call_id


def test_the_texts_of_openais_responses_are_texts() -> None:
    asked = {"role": "user", "content": [{"type": "input_text", "text": "Go."}]}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "Fine."}]}
    question, answer = read_messages([asked, said])
    assert (question.content, answer.content) == ([{"type": "text", "text": "Go."}], "Fine.")


def test_roles_and_plain_texts() -> None:
    history = ["a", ("ai", "b"), {"role": "developer", "content": "c"}, {"role": "narrator", "content": "d"}]
    assert [(type(it), it.content) for it in read_messages(history)] == [
        (HumanMessage, "a"),
        (AIMessage, "b"),
        (SystemMessage, "c"),
        (HumanMessage, "d"),
    ]


@pytest.mark.parametrize("item", [None, 7, object(), {"x": 1}, ["a", "b", "c"]])
def test_what_is_no_message_is_refused_by_its_place(item: Any) -> None:
    with pytest.raises(UsageError, match="Item 1 of the history is"):
        read_messages(["a", item])
