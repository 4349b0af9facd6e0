"""Agents of each framework with the tools of an executor, over a server that speaks the provider's protocol.

Each runs the framework's own loop, made as its documentation says. What the model read is what the server got.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from providers.anthropic import AnthropicServer
from providers.base import Server
from providers.openai import OpenAIServer
from providers.rules import blocks
from toolrun import ToolExecutor

MODEL = "gpt-5"
Ask = Callable[[ToolExecutor, str, str], Awaitable[str]]


def _chat_model(url: str) -> Any:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    return ChatOpenAI(model=MODEL, base_url=url, api_key=SecretStr("key"), max_retries=0)


async def langchain(executor: ToolExecutor, url: str, question: str) -> str:
    from langchain.agents import create_agent

    from toolrun.adapters import langchain_tools

    agent: Any = create_agent(_chat_model(url), tools=langchain_tools(executor))
    return _last(await agent.ainvoke({"messages": [("user", question)]}))


async def langchain_middleware(executor: ToolExecutor, url: str, question: str) -> str:
    from langchain.agents import create_agent

    from toolrun.adapters import ToolrunMiddleware

    agent: Any = create_agent(_chat_model(url), middleware=[ToolrunMiddleware(executor)])
    return _last(await agent.ainvoke({"messages": [("user", question)]}))


async def langgraph(executor: ToolExecutor, url: str, question: str) -> str:
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import tools_condition

    from toolrun.adapters import ToolrunNode, langchain_tools

    async def ask(state: MessagesState) -> dict[str, Any]:
        model = _chat_model(url).bind_tools(langchain_tools(executor))
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolrunNode(executor))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    return _last(await graph.compile().ainvoke({"messages": [("user", question)]}))


async def pydantic_ai(executor: ToolExecutor, url: str, question: str) -> str:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from toolrun.adapters import ToolrunToolset

    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
        agent: Any = Agent(model, toolsets=[ToolrunToolset(executor)])
        return str((await agent.run(question)).output)


async def openai_agents(executor: ToolExecutor, url: str, question: str) -> str:
    from toolrun.adapters import agents_tools

    return await run_agent(url, question, tools=agents_tools(executor))


async def openai_agents_subclass(executor: ToolExecutor, url: str, question: str) -> str:
    return await run_agent(url, question, executor=executor)


async def run_agent(url: str, question: str, *, config: dict[str, Any] | None = None, **options: Any) -> str:
    """An agent of openai-agents, with the executor's tools as a list or as an agent that has the executor."""
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
    from openai import AsyncOpenAI

    from toolrun.adapters import ToolrunAgent

    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:
        model = OpenAIChatCompletionsModel(MODEL, openai_client=client)
        kind: Any = ToolrunAgent if "executor" in options else Agent
        agent = kind(name="Home", model=model, **options)
        run_config = RunConfig(tracing_disabled=True, **(config or {}))
        return str((await Runner.run(agent, question, run_config=run_config)).final_output)


async def openai_sdk(executor: ToolExecutor, url: str, question: str) -> str:
    from openai import AsyncOpenAI

    from toolrun.adapters import OpenAITools

    tools = OpenAITools(executor)
    messages: list[Any] = [{"role": "user", "content": question}]
    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:
        while messages[-1]["role"] != "assistant":
            answer = await client.chat.completions.create(model=MODEL, messages=messages, tools=tools.definitions)
            messages += await tools.execute(answer)
    return str(messages[-1]["content"])


async def anthropic_sdk(executor: ToolExecutor, url: str, question: str) -> str:
    from anthropic import AsyncAnthropic

    from toolrun.adapters import AnthropicTools

    tools = AnthropicTools(executor)
    messages: list[Any] = [{"role": "user", "content": question}]
    async with AsyncAnthropic(base_url=url, api_key="key", max_retries=0) as client:
        while messages[-1]["role"] != "assistant":
            message = await client.messages.create(
                model="claude-haiku-5-5", max_tokens=1024, messages=messages, tools=tools.definitions
            )
            messages += await tools.execute(message)
    return "".join(block.text for block in messages[-1]["content"] if block.type == "text")


def _last(state: dict[str, Any]) -> str:
    return str(state["messages"][-1].text)


@dataclass(frozen=True)
class Framework:
    """How one framework uses an executor, and what it leaves to it."""

    name: str
    ask: Ask
    server: type[Server] = OpenAIServer
    sees_later_tools: bool = True
    """Whether tools are asked for before each request."""
    runs_unknown_names: bool = True
    """Whether a call of a tool that was not offered gets to the executor."""
    knows_the_end: bool = True
    """Whether it tells why an answer ended, so that calls which are cut off need not run."""
    passes_invalid_json: bool = True
    """Whether arguments that are not JSON get to the executor."""


FRAMEWORKS = [
    # `create_agent` answers unknown names and invalid JSON itself: that is what the middleware is for.
    Framework(
        "langchain",
        langchain,
        sees_later_tools=False,
        runs_unknown_names=False,
        knows_the_end=False,
        passes_invalid_json=False,
    ),
    Framework("langchain_middleware", langchain_middleware),
    Framework("langgraph", langgraph, passes_invalid_json=False),  # `tools_condition` sees no call
    # Both end the run at an unknown name. openai-agents sends arguments that are not JSON back as they are, which
    # servers refuse.
    Framework("pydantic_ai", pydantic_ai, runs_unknown_names=False),
    Framework(
        "openai_agents",
        openai_agents,
        sees_later_tools=False,
        runs_unknown_names=False,
        knows_the_end=False,
        passes_invalid_json=False,
    ),
    Framework(
        "openai_agents_subclass",
        openai_agents_subclass,
        runs_unknown_names=False,
        knows_the_end=False,
        passes_invalid_json=False,
    ),
    Framework("openai_sdk", openai_sdk),
    Framework("anthropic_sdk", anthropic_sdk, AnthropicServer, passes_invalid_json=False),  # always an object
]


@dataclass
class Agent:
    """One framework, its server and the executor."""

    framework: Framework
    server: Server
    executor: ToolExecutor

    async def ask(self, question: str = "Do it.") -> str:
        return await self.framework.ask(self.executor, self.server.url, question)

    def results(self, request: int = -1) -> dict[str, str]:
        """What the model read of each call, by the id of the call."""
        messages = self.server.bodies[request]["messages"]
        if isinstance(self.server, AnthropicServer):
            found = [block for message in messages for block in blocks(message) if block["type"] == "tool_result"]
            return {block["tool_use_id"]: _text(block["content"]) for block in found}
        return {it["tool_call_id"]: _text(it["content"]) for it in messages if it["role"] == "tool"}

    def offered(self, request: int = -1) -> dict[str, dict[str, Any]]:
        """The schemas of the tools in a request, by name."""
        tools = [tool.get("function", tool) for tool in self.server.bodies[request].get("tools") or []]
        return {it["name"]: it.get("parameters", it.get("input_schema")) for it in tools}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def open_agent(framework: Framework, executor: ToolExecutor) -> Iterator[Agent]:
    """At the end no request may have broken a rule of the provider."""
    with framework.server() as server:
        yield Agent(framework, server, executor)
    assert server.violations == []
