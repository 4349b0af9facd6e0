"""What is remembered of a conversation, and for how long."""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from toolrun.voice.memory import Memory


def exchange(number: int) -> list[BaseMessage]:
    return [HumanMessage(content=f"question {number}"), AIMessage(content=f"answer {number}")]


def test_a_conversation_is_remembered_until_its_time_is_over() -> None:
    memory = Memory(60)
    assert memory.recall(1000) == []
    memory.keep(exchange(1), 1000)
    assert memory.recall(1059) == exchange(1)
    assert memory.recall(1060) == []
    assert memory.recall(1001) == [], "it is gone, and does not come back"


def test_every_answer_begins_the_time_anew() -> None:
    memory = Memory(60)
    memory.keep(exchange(1), 0)
    memory.keep([*exchange(1), *exchange(2)], 50)
    assert len(memory.recall(100)) == 4


def test_what_is_far_back_goes_at_a_question() -> None:
    memory = Memory(60)
    memory.keep([message for number in range(30) for message in exchange(number)], 0)
    assert memory.recall(1) == [message for number in range(10, 30) for message in exchange(number)]
