"""S3.6 and S3.16.3: AI clients convert the formats of tools, and execute the originals through the ToolExecutor."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic, convert_to_anthropic_tool
from langchain_core.tools import BaseTool

from acceptance.clients import ARGUMENTS, LangChainTool, prove_delegation, watched
from providers.base import Asked, Step
from providers.clients import open_side


@pytest.mark.scenario("S3.6.1")
async def test_s3_6_1_anthropic_tool_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    """AnthropicClient executes through the ToolExecutor; LangChain's adapter gets LangChain tools and converts them."""
    bound: list[list[Any]] = []
    bind_tools = ChatAnthropic.bind_tools

    def watched_bind_tools(self: ChatAnthropic, tools: Any, **options: Any) -> Any:
        bound.append(list(tools))
        return bind_tools(self, tools, **options)

    monkeypatch.setattr(ChatAnthropic, "bind_tools", watched_bind_tools)
    with open_side("anthropic streamed") as side:
        executor, tool = await prove_delegation(side)
        [sent] = side.server.bodies[0]["tools"]
    [[given]] = bound  # once for the whole turn
    assert isinstance(given, BaseTool), "in LangChain's format, and not in that of the wire"
    assert (given.name, given.description) == (tool.name, tool.description)
    assert given.args_schema == tool.schema
    assert sent == convert_to_anthropic_tool(given), "the conversion is that of LangChain's adapter"
    assert sent == {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
    [kept] = executor.manager.tools
    assert kept is tool, "what the client was given is the tool itself"
    assert tool.schema == LangChainTool.schema


@pytest.mark.scenario("S3.6.2")
async def test_s3_6_2_ollama_tool_execution_with_qwen_format_conversion() -> None:
    """OllamaClient sends `{type: function, function: {name, description, parameters}}` and nothing else of a tool."""
    with open_side("ollama streamed") as side:
        executor, tool = await prove_delegation(side)
        [sent] = side.server.bodies[0]["tools"]
    function = {"name": tool.lc_name, "description": tool.description, "parameters": tool.schema}
    assert sent == {"type": "function", "function": function}
    assert executor.manager.tools == [tool]


@pytest.mark.scenario("S3.16.3")
async def test_s3_16_3_tool_invocation_remains_unchanged() -> None:
    """A call of a Qwen model reaches the original tool's invoke() with its arguments, and its result the model."""
    executor, tool = watched()
    with open_side("ollama streamed") as side:
        side.server.play(Step(calls=[Asked(tool.name, ARGUMENTS)]), Step(text="Done."))
        reply = await side.client(executor).query("Turn on switch one.")
        assert executor.executed[0][:2] == (tool.name, ARGUMENTS)
        assert tool.invoked == [ARGUMENTS]
        *_, asked, answered = side.server.bodies[1]["messages"]
    assert asked["tool_calls"] == [{"function": {"name": tool.name, "arguments": ARGUMENTS}}]
    assert (answered["role"], answered["content"]) == ("tool", "Switch One is on")
    assert reply.text == "Done."
    await executor.close()
