"""The list of messages: what models and other programs do to it, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

from toolrun.clients.conversation import (
    ensure_user_first,
    merge_chunks,
    normalise_answer,
    repair_history,
    tool_message,
)
from toolrun.clients.provider import Provider
from toolrun.clients.wording import Wording
from toolrun.result import ToolCall

WORDING = Wording.load()


def call(id: str | None = "1", name: str = "add", **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": id, "type": "tool_call"}


def invalid(id: str | None, name: str | None, text: str) -> Any:
    return {"name": name, "args": text, "id": id, "error": None, "type": "invalid_tool_call"}


def test_an_answer_in_order_is_left_as_it_is() -> None:
    message = AIMessage(content="Hm.", tool_calls=[call("1", a=1), call("2", a=2)])
    answer = normalise_answer(message, set())
    assert answer.message is message
    assert answer.calls == [ToolCall("1", "add", {"a": 1}), ToolCall("2", "add", {"a": 2})]


def test_a_stream_becomes_a_message_of_the_whole() -> None:
    pieces = [
        AIMessageChunk(content="He"),
        AIMessageChunk(content="llo", tool_call_chunks=[tool_call_chunk(name="add", args='{"a"', id="1", index=0)]),
        AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name=None, args=": 1}", id=None, index=0)]),
    ]
    answer = normalise_answer(merge_chunks(pieces), set())
    assert type(answer.message) is AIMessage
    assert answer.message.content == "Hello"
    assert answer.message.tool_calls == [call("1", a=1)]


def test_missing_and_repeated_ids_are_replaced_and_content_that_repeats_them_is_left_out() -> None:
    content: Any = [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "1", "name": "add", "input": {}}]
    message = AIMessage(content=content, tool_calls=[call("1"), call("1"), call(None), call("")])
    used_ids = {"0"}
    answer = normalise_answer(message, used_ids)
    ids = [each["id"] for each in answer.message.tool_calls]
    assert ids == [each.id for each in answer.calls]
    assert len({*ids}) == 4
    assert ids[0] == "1"
    assert used_ids == {"0", *ids}
    assert answer.message.content == [{"type": "text", "text": "Hm."}]
    assert message.tool_calls[1]["id"] == "1", "the message that was given is not changed"


def test_an_id_of_an_earlier_answer_is_not_used_again() -> None:
    answer = normalise_answer(AIMessage(content="", tool_calls=[call("1")]), {"1"})
    assert answer.calls[0].id != "1"


@pytest.mark.parametrize("text", ['{"a": ', "nonsense", "[1]", '"text"', '{"a": 1'])
def test_arguments_that_are_no_object_stay_text_for_the_executor(text: str) -> None:
    answer = normalise_answer(AIMessage(content="", invalid_tool_calls=[invalid("7", "add", text)]), set())
    assert answer.calls == [ToolCall("7", "add", text)]
    assert answer.message.tool_calls == [call("7")]
    assert answer.message.invalid_tool_calls == []


@pytest.mark.parametrize("text", ["", "  ", "null", None])
def test_no_arguments_are_an_empty_object(text: Any) -> None:
    assert (
        normalise_answer(AIMessage(content="", invalid_tool_calls=[invalid("7", "add", text)]), set())
        .calls[0]
        .arguments
        == {}
    )


def test_brackets_that_langchain_closed_by_itself_are_noticed() -> None:
    chunk = AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name="add", args='{"a": 1', id="1", index=0)])
    assert chunk.tool_calls == [call("1", a=1)]
    answer = normalise_answer(chunk, set())
    assert answer.calls[0].arguments == '{"a": 1'
    assert answer.message.tool_calls == [call("1")]


@pytest.mark.parametrize(("name", "recorded"), [("a.b c", "a_b_c"), ("", "unknown"), ("x" * 100, "x" * 64)])
def test_names_are_recorded_as_every_provider_takes_them(name: str, recorded: str) -> None:
    answer = normalise_answer(AIMessage(content="", tool_calls=[call("1", name)]), set())
    assert answer.calls[0].name == name
    assert answer.message.tool_calls[0]["name"] == recorded
    assert tool_message(answer.calls[0], "Error: x", failed=True).name == recorded


def test_text_that_says_nothing_is_recorded_as_none() -> None:
    assert normalise_answer(AIMessage(content=" \n"), set()).message.content == ""


def repaired(*messages: BaseMessage, origin: str = "") -> list[BaseMessage]:
    return repair_history(messages, WORDING, set(), Provider("Test", "openai", origin))


def test_a_complete_history_is_left_as_it_is() -> None:
    history = [
        HumanMessage("Hello"),
        AIMessage(content="", tool_calls=[call("1"), call("2")]),
        ToolMessage(content="a", tool_call_id="1"),
        ToolMessage(content="b", tool_call_id="2"),
        AIMessage(content="Done."),
    ]
    assert all(mine is theirs for mine, theirs in zip(repaired(*history), history, strict=True))


def test_calls_without_a_result_get_one_and_results_come_in_the_order_of_the_calls() -> None:
    messages = repaired(
        AIMessage(content="", tool_calls=[call("1"), call("2"), call("3")]),
        ToolMessage(content="c", tool_call_id="3"),
        HumanMessage("Stop."),
        ToolMessage(content="a", tool_call_id="1"),
    )
    assert [(it.type, it.content) for it in messages[1:]] == [
        ("tool", "a"),
        ("tool", f"Error: {WORDING.no_record}"),
        ("tool", "c"),
        ("human", "Stop."),
    ]
    assert [it.status for it in messages if isinstance(it, ToolMessage)] == ["success", "error", "success"]


def test_results_that_belong_to_no_call_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stray = ToolMessage(content="?", tool_call_id="9")
    double = ToolMessage(content="a", tool_call_id="1")
    messages = repaired(
        stray, HumanMessage("Hi."), AIMessage(content="", tool_calls=[call("1")]), double, double, stray
    )
    assert [it.type for it in messages] == ["human", "ai", "tool"]
    assert "belong to no call" in caplog.text


def test_ids_that_come_again_in_each_round_are_told_apart() -> None:
    exchange = [AIMessage(content="", tool_calls=[call("0")]), ToolMessage(content="x", tool_call_id="0")]
    messages = repaired(*exchange, *exchange)
    asked = [it.tool_calls[0]["id"] for it in messages if isinstance(it, AIMessage)]
    given = [it.tool_call_id for it in messages if isinstance(it, ToolMessage)]
    assert asked == given
    assert len(set(asked)) == 2


def test_what_only_another_provider_can_read_is_left_out() -> None:
    content: Any = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Yes."}]
    message = AIMessage(content=content, response_metadata={"model_provider": "anthropic"})
    assert repaired(message, origin="anthropic") == [message]
    assert repaired(message, origin="ollama")[0].content == "Yes."


def test_a_history_may_be_pairs_of_role_and_text() -> None:
    assert repair_history([("user", "Hello"), ("assistant", "Hi.")], WORDING, set(), Provider("Test", "openai")) == [
        HumanMessage("Hello"),
        AIMessage("Hi."),
    ]


def test_the_calls_that_run_are_those_of_langchains_message() -> None:
    """The raw text only tells which of them LangChain completed by guess."""
    pieces = [
        tool_call_chunk(name="add", args='{"a": 1}', id="1", index=0),
        tool_call_chunk(name="add", args='{"a": 2', id="2", index=1),
        tool_call_chunk(name="add", args="nonsense", id="3", index=2),
        tool_call_chunk(name="add", args="", id="4", index=3),
    ]
    message = AIMessageChunk(content="", tool_call_chunks=pieces)
    message.tool_calls[0]["args"] = {"a": "what LangChain says"}
    answer = normalise_answer(message, set())
    assert [it.arguments for it in answer.calls] == [{"a": "what LangChain says"}, '{"a": 2', "nonsense", {}]
    assert [it.id for it in answer.calls] == ["1", "2", "3", "4"]


def test_calls_without_raw_text_are_taken_as_they_are() -> None:
    message = AIMessageChunk(content="", tool_calls=[call("1", a=1)])
    message.tool_call_chunks = []
    assert normalise_answer(message, set()).calls == [ToolCall("1", "add", {"a": 1})]


@pytest.mark.parametrize("id", ["x" * 41, "a b", "a:b", "ü", "\ud800", ""])
def test_ids_that_a_provider_refuses_are_replaced_with_their_results(id: str) -> None:
    asked, result = repaired(AIMessage("", tool_calls=[call(id)]), ToolMessage("fine", tool_call_id=id))
    assert isinstance(asked, AIMessage)
    assert isinstance(result, ToolMessage)
    assert asked.tool_calls[0]["id"] == result.tool_call_id != id
    assert len(result.tool_call_id) <= 40
    assert result.content == "fine"


def test_an_id_of_40_characters_is_kept() -> None:
    assert normalise_answer(AIMessage("", tool_calls=[call("x" * 40)]), set()).calls[0].id == "x" * 40


def test_instructions_go_to_the_beginning_and_empty_messages_are_left_out() -> None:
    messages = repaired(HumanMessage("a"), SystemMessage("b"), AIMessage(" "), HumanMessage(""), AIMessage("c"))
    assert [(it.type, it.content) for it in messages] == [("system", "b"), ("human", "a"), ("ai", "c")]


def test_a_conversation_begins_with_a_message_of_the_user() -> None:
    answer, question = AIMessage("Hello."), HumanMessage("Hi.")
    assert ensure_user_first([SystemMessage("s"), answer], WORDING) == [
        SystemMessage("s"),
        HumanMessage(WORDING.no_beginning),
        answer,
    ]
    assert ensure_user_first([question, answer], WORDING) == [question, answer]


def test_images_follow_the_results_where_a_result_is_text_only() -> None:
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    history = [AIMessage("", tool_calls=[call("1")]), ToolMessage([image], tool_call_id="1"), HumanMessage("Well?")]
    _, result, following, _ = repaired(*history)
    assert (result.content, following.content) == ("(no output)", [image])
    shows = Provider("Test", "openai", shows_images_in_results=True)
    _, result, _ = repair_history(history, WORDING, set(), shows)
    assert result.content == [image]
