"""Ten thousand rounds with a model that misbehaves at random: whatever it does, the messages are valid everywhere."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from typing import Any, cast

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages import content as langchain_content
from langchain_core.messages.tool import tool_call_chunk
from langchain_ollama import ChatOllama

from providers.rules import anthropic_problem, ollama_problem
from toolrun import ToolError, ToolExecutor, ToolManager
from toolrun.clients import ModelClient, ModelError, TurnLimits
from toolrun.testing import ScriptedModel

ROUNDS = 10_000
ANTHROPIC = ChatAnthropic(model_name="claude-sonnet-5-5", api_key="x", max_tokens=100)  # type: ignore[arg-type,call-arg]
OLLAMA = ChatOllama(model="qwen3:0.6b")
TOOLS = [{"name": "lamp", "description": "A lamp.", "input_schema": {"type": "object", "properties": {}}}]
NAMES = ["lamp", "lamp", "fail", "slow", "slow", "nobody", "", "not a name!", "x" * 200, "функция"]
IDS = ["", "a", "b", "a:b/c", "call_0", "call_1", None]
RAWS = ['{"number": 1}', '{"number": ', "nonsense", "[1]", "null", "", '{"number": 1}{"number": 2}', '"text"']
STOPS = ["stop", "stop", "stop", "tool_calls", "length", "max_tokens", None]


def problem(messages: Sequence[BaseMessage]) -> str | None:
    """What either provider would refuse in a request with these messages."""
    payload = ANTHROPIC._get_request_payload(list(messages))
    refused = anthropic_problem({**payload, "tools": TOOLS})
    if refused:
        return f"Anthropic: {refused}"
    parameters = OLLAMA._chat_params(list(messages))
    refused = ollama_problem(parameters)
    return f"Ollama: {refused}" if refused else None


class Chaos:
    """Makes answers that no good model would give."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.requests = 0

    def __call__(self, messages: Sequence[BaseMessage]) -> Any:
        self.requests += 1
        assert problem(messages) is None
        match self.random.randrange(12):
            case 0:
                return ConnectionError("gone")
            case 1:
                return self.text()
            case 2 | 3 | 4:
                return AIMessage(**self.whole())
            case 5:
                return [*self.pieces()[:-1], ConnectionError("cut")]
        return self.pieces()

    def text(self) -> str:
        return self.random.choice(["", " ", "Hello.", "Well, {result}", "\n"])

    def count(self) -> int:
        return self.random.choice([0, 1, 1, 1, 2, 3, 5])

    def whole(self) -> dict[str, Any]:
        """An answer in one piece."""
        choose = self.random.choice
        calls = [
            {
                "name": choose(NAMES),
                "args": {"number": self.random.randrange(3)},
                "id": choose(IDS),
                "type": "tool_call",
            }
            for _ in range(self.count())
        ]
        invalid = [
            {"name": choose(NAMES), "args": choose(RAWS), "id": choose(IDS), "error": None, "type": "invalid_tool_call"}
            for _ in range(choose([0, 0, 0, 1, 2]))
        ]
        content: Any = self.text()
        if choose([True, False, False]):
            content = [{"type": "text", "text": content}] if content.strip() else []
            content += [{"type": "tool_use", "id": it["id"], "name": it["name"], "input": {}} for it in calls]
        metadata = {"finish_reason": choose(STOPS), "model_provider": choose(["", "anthropic"])}
        return {"content": content, "tool_calls": calls, "invalid_tool_calls": invalid, "response_metadata": metadata}

    def pieces(self) -> list[AIMessageChunk]:
        """An answer as a stream."""
        choose = self.random.choice
        chunks = [AIMessageChunk(content=self.text()) for _ in range(choose([0, 1, 2]))]
        for index in range(self.count()):
            raw = choose(RAWS)
            middle = self.random.randrange(len(raw) + 1)
            begin = tool_call_chunk(name=choose(NAMES), args=raw[:middle], id=choose(IDS), index=index)
            rest = tool_call_chunk(name=None, args=raw[middle:], id=None, index=index)
            chunks += [AIMessageChunk(content="", tool_call_chunks=[piece]) for piece in (begin, rest)]
        return [*chunks, AIMessageChunk(content="", response_metadata={"finish_reason": choose(STOPS)})]

    def spoil(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        """What another program may do to a history."""
        spoiled = [it for it in messages if not (isinstance(it, ToolMessage) and self.random.random() < 0.2)]
        if self.random.random() < 0.3:
            spoiled += [it for it in messages if isinstance(it, ToolMessage)][-2:]
        if self.random.random() < 0.2 and len(spoiled) > 3:
            first = self.random.randrange(len(spoiled) - 1)
            spoiled[first], spoiled[first + 1] = spoiled[first + 1], spoiled[first]
        while spoiled and not isinstance(spoiled[0], HumanMessage):
            spoiled.pop(0)
        return spoiled


def tools() -> ToolManager:
    async def lamp(number: int) -> str:
        """Switch a lamp."""
        return f"lamp {number} is on"

    async def fail(number: int) -> str:
        """Fail."""
        raise ToolError(f"no {number}")

    async def slow(number: int = 0) -> str:
        """Take a moment."""
        for _ in range(10):
            await asyncio.sleep(0)
        return "done"

    return ToolManager([lamp, fail, slow])


async def play(chaos: Chaos, client: ModelClient, history: list[BaseMessage]) -> list[BaseMessage]:
    """One turn, which may be cancelled at any point. The conversation after it."""
    asked = client.turn("Go on.", history)
    turn = asyncio.ensure_future(asked.run())
    if chaos.random.random() < 0.3:
        for _ in range(chaos.random.randrange(40)):
            await asyncio.sleep(0)
        turn.cancel()
    try:
        return (await turn).messages
    except ModelError as error:
        return list(error.messages)
    except asyncio.CancelledError:
        return asked.interrupted or []  # none: it was cancelled before it began


@pytest.fixture
def quick_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain works out the same constant anew for every content block, in milliseconds."""
    constant = langchain_content._get_data_content_block_types
    monkeypatch.setattr(langchain_content, constant.__name__, functools.cache(constant))


@pytest.mark.usefixtures("quick_langchain")
@pytest.mark.parametrize("seed", range(4))
async def test_after_every_round_the_messages_are_valid_for_both_providers(seed: int) -> None:
    chaos = Chaos(seed)
    executor = ToolExecutor(tools(), observers=[])
    history: list[BaseMessage] = []
    while chaos.requests < ROUNDS // 4:
        model = ScriptedModel([chaos], repeat=True, disable_streaming=chaos.random.random() < 0.5)
        limits = TurnLimits(rounds=4, calls=8, parallel=2)
        messages = await play(chaos, ModelClient(model, executor, limits=limits), history)
        assert problem([*messages, HumanMessage("And then?")]) is None
        assert not any(cast(Any, it).invalid_tool_calls for it in messages if isinstance(it, AIMessage))
        history = chaos.spoil(messages) if len(messages) < 16 else []
    await executor.close()
