"""One round of the loop between model and tools, without the model: toolrun beside the peers.

All play the same script: five rounds with one call of add(a, b), then an answer. What the model itself costs is
measured beside it, in the form in which each loop asks it, and subtracted.
usage: loop.py [rounds]
"""

import asyncio
import json
import statistics
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from harness import Case, Target, measure, print_table, print_targets
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

from toolrun import ToolExecutor, ToolManager
from toolrun.clients import ModelClient

ROUNDS = 5
QUESTION = "What is the sum?"
Operation = Callable[[], Awaitable[object]]


async def add(a: int, b: int) -> str:
    """Add two integers."""
    return str(a + b)


class Scripted(BaseChatModel):
    """Asks for a sum until it has seen enough of them."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=tools)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        seen = sum(isinstance(message, ToolMessage) for message in messages)
        if seen < ROUNDS:
            call = {"name": "add", "args": {"a": seen, "b": 2}, "id": f"call_{seen}", "type": "tool_call"}
            answer = AIMessage(content="", tool_calls=[call])
        else:
            answer = AIMessage(content="Done.")
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return self._generate(messages)


def conversation() -> list[BaseMessage]:
    """A request in the middle of the script, for what the model alone costs."""
    call: Any = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_0", "type": "tool_call"}
    messages: list[BaseMessage] = [HumanMessage(QUESTION)]
    for _ in range(ROUNDS // 2):
        messages += [AIMessage(content="", tool_calls=[call]), ToolMessage(content="3", tool_call_id="call_0")]
    return messages


def toolrun() -> tuple[Operation, Operation]:
    model = Scripted()
    client = ModelClient(model, ToolExecutor(ToolManager([add]), observers=[]))
    bound, messages = model.bind_tools([]), conversation()
    return lambda: client.query(QUESTION), lambda: bound.ainvoke(messages)


def langchain() -> tuple[Operation, Operation]:
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool

    model = Scripted()
    agent: Any = create_agent(model, [StructuredTool.from_function(coroutine=add, name="add")])
    bound, messages = model.bind_tools([]), conversation()
    return lambda: agent.ainvoke({"messages": [HumanMessage(QUESTION)]}), lambda: bound.ainvoke(messages)


def pydantic_ai() -> tuple[Operation, Operation]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.function import FunctionModel

    async def play(messages: Any, info: Any) -> ModelResponse:
        seen = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if seen < ROUNDS:
            return ModelResponse([ToolCallPart("add", {"a": seen, "b": 2}, f"call_{seen}")])
        return ModelResponse([TextPart("Done.")])

    model = FunctionModel(play)
    agent: Any = Agent(model, tools=[add])
    messages: Any = [ModelRequest([UserPromptPart(QUESTION)])]
    for index in range(ROUNDS // 2):
        messages += [
            ModelResponse([ToolCallPart("add", {"a": 1, "b": 2}, f"call_{index}")]),
            ModelRequest([ToolReturnPart("add", "3", f"call_{index}")]),
        ]
    parameters = ModelRequestParameters()
    return lambda: agent.run(QUESTION), lambda: model.request(messages, None, parameters)


def tool_runner() -> tuple[Operation, Operation]:
    import httpx2
    from anthropic import AsyncAnthropic, beta_async_tool

    bodies = []
    for index in range(ROUNDS + 1):
        call = {"type": "tool_use", "id": f"toolu_{index}", "name": "add", "input": {"a": index, "b": 2}}
        ends = index == ROUNDS
        bodies.append(
            json.dumps(
                {
                    "id": f"msg_{index}",
                    "type": "message",
                    "role": "assistant",
                    "model": "claude-test",
                    "content": [{"type": "text", "text": "Done."} if ends else call],
                    "stop_reason": "end_turn" if ends else "tool_use",
                    "stop_sequence": None,
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                }
            ).encode()
        )

    def play(request: Any) -> Any:
        """The results carry the ids of their calls, so the newest one tells how far the script is."""
        text = request.content
        seen = next((index + 1 for index in reversed(range(ROUNDS)) if b'"tool_use_id":"toolu_%d"' % index in text), 0)
        return httpx2.Response(200, content=bodies[seen], headers={"content-type": "application/json"})

    client: Any = AsyncAnthropic(
        api_key="x",
        base_url="http://model.invalid",
        http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(play)),
    )
    tools = [beta_async_tool(add)]
    first: Any = [{"role": "user", "content": QUESTION}]
    options: Any = {"model": "claude-test", "max_tokens": 1000}

    async def run() -> object:
        return await client.beta.messages.tool_runner(tools=tools, messages=first, **options).until_done()

    middle = list(first)
    for index in range(ROUNDS // 2):
        call = {"type": "tool_use", "id": f"toolu_{index}", "name": "add", "input": {"a": index, "b": 2}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{index}", "content": "3"}
        middle += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    described = [tool.to_dict() for tool in tools]
    return run, lambda: client.beta.messages.create(messages=middle, tools=described, **options)


def overheads(turn: Case, model: Case) -> list[float]:
    """Nanoseconds that a round costs beside the model, in each round of the measurement."""
    pairs = zip(turn.cpu, model.cpu, strict=True)
    return [max(1.0, (whole - (ROUNDS + 1) * alone) / ROUNDS) for whole, alone in pairs]


async def main(rounds: int) -> bool:
    warnings.simplefilter("ignore")
    loops = {
        "toolrun": toolrun(),
        "LangChain create_agent": langchain(),
        "Pydantic AI": pydantic_ai(),
        "Anthropic SDK tool_runner": tool_runner(),
    }
    turns = {name: Case(name, turn) for name, (turn, _) in loops.items()}
    models = {name: Case(f"{name}, its model", model) for name, (_, model) in loops.items()}
    await measure([*turns.values(), *models.values()], rounds, block_ms=20)
    spent = {name: overheads(turns[name], models[name]) for name in loops}
    times = {
        name: statistics.median(theirs / ours for theirs, ours in zip(each, spent["toolrun"], strict=True))
        for name, each in spent.items()
    }
    rows = [
        (name, statistics.median(each) / 1000, statistics.median(models[name].cpu) / 1000, times[name])
        for name, each in spent.items()
    ]
    print_table(
        "One round of model and tool, beside the model", ("loop", "CPU µs", "the model, CPU µs", "× toolrun"), rows
    )
    best = min(ratio for name, ratio in times.items() if name != "toolrun")
    return print_targets([Target("less than the best peer, ×", best, 5, at_least=True)])


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)))
