"""S3.15 and S3.16: tools in the format of Qwen, for Ollama."""

from __future__ import annotations

import copy
import logging
from typing import Any

import jsonschema_rs
import pytest
from langchain_core.tools import BaseTool, StructuredTool

from providers.anthropic import AnthropicServer
from providers.base import Asked, Step
from providers.offered import TOOLS
from providers.ollama import OllamaServer
from providers.qwen import SWITCH, ask, prove_with_a_model, real_server, switch
from toolrun import Tool, ToolExecutor, ToolManager, tool
from toolrun.clients import AnthropicClient, OllamaClient
from toolrun.clients.dialect import to_qwen


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Args:
        a: The first one.
        b: The second one.
    """
    return a + b


def search() -> BaseTool:
    return StructuredTool.from_function(
        lambda query: f"no {query}", name="search", description="Search.", args_schema=SEARCH
    )


SEARCH = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


@pytest.mark.scenario("S3.15.1")
def test_s3_15_1_convert_langchain_tool_to_qwen_format() -> None:
    """A tool becomes type and function, with its name, description and schema and nothing else."""
    (of_mcp,) = to_qwen([switch()])
    assert of_mcp == {
        "type": "function",
        "function": {
            "name": "zwave__control_switch",
            "description": "Switch a device on or off.",
            "parameters": SWITCH,
        },
    }
    (custom,) = to_qwen([search()])
    assert custom["function"] == {"name": "search", "description": "Search.", "parameters": SEARCH}


@pytest.mark.scenario("S3.15.2")
def test_s3_15_2_convert_multiple_tools() -> None:
    """All kinds of tools are converted, in order, and stay what they were."""
    of_mcp = switch()
    tools: list[Tool] = [of_mcp, add, search()]
    kept, before = list(tools), copy.deepcopy([switch().schema, add.schema, SEARCH])
    converted = to_qwen(tools)
    names = [it["function"]["name"] for it in converted]  # type: ignore[index,call-overload]
    assert names == ["zwave__control_switch", "add", "search"]
    assert all(it["type"] == "function" for it in converted)
    assert all(one is other for one, other in zip(tools, kept, strict=True))
    assert [of_mcp.schema, add.schema, search().args_schema] == before
    assert to_qwen(tools) == converted


@pytest.mark.scenario("S3.15.3")
def test_s3_15_3_handle_empty_or_undefined_tools() -> None:
    """No tools are an empty list, however that is said."""
    assert to_qwen([]) == []
    assert to_qwen(None) == []
    assert to_qwen(ToolManager()) == []


@pytest.mark.scenario("S3.15.4")
def test_s3_15_4_log_tool_conversion(caplog: pytest.LogCaptureFixture) -> None:
    """The log says at the level debug how many tools were converted."""
    with caplog.at_level(logging.DEBUG, "toolrun"):
        to_qwen([switch(), add, search()])
    assert [(it.levelname, it.getMessage()) for it in caplog.records] == [
        ("DEBUG", "🔧 Converted 3 tools from LangChain to Qwen format")
    ]


@pytest.mark.scenario("S3.15.5")
async def test_s3_15_5_tool_conversion_is_isolated_to_ollama(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """The collection keeps the tools as they are, and only the client of Ollama makes Qwen's format of them."""
    given = [switch(), search()]
    for it in given:
        executor.manager.add(it)
    with OllamaServer() as ollama, AnthropicServer() as anthropic, caplog.at_level(logging.DEBUG, "toolrun.dialect"):
        ollama.play(Step(text="Hello."))
        anthropic.play(Step(text="Hello."))
        await OllamaClient(executor, model="qwen3:0.6b", base_url=ollama.url).query("hello")
        told = list(caplog.messages)
        caplog.clear()
        await AnthropicClient(executor, "claude-test", "x", anthropic.url).query("hello")
    assert told == ["🔧 Converted 2 tools from LangChain to Qwen format"]
    assert not [message for message in caplog.messages if "Qwen" in message]
    assert [it["type"] for it in ollama.bodies[0]["tools"]] == ["function", "function"]
    assert [it.keys() for it in anthropic.bodies[0]["tools"]] == [{"name", "description", "input_schema"}] * 2
    kept = executor.manager.tools
    assert all(one is other for one, other in zip(kept, given, strict=True))
    assert isinstance(kept[1], StructuredTool)
    assert kept[1].args_schema is SEARCH


@pytest.mark.scenario("S3.16.1")
def test_s3_16_1_validate_qwen_tool_structure() -> None:
    """A tool has type and function, a function has name, description and parameters, and those are a JSON Schema."""
    for it in to_qwen([*TOOLS, switch(), add, search()]):
        function: Any = it["function"]
        assert it.keys() == {"type", "function"}
        assert it["type"] == "function"
        assert function.keys() == {"name", "description", "parameters"}
        assert function["name"]
        assert function["description"]
        parameters = function["parameters"]
        assert parameters["type"] == "object"
        assert parameters.keys() <= {"type", "properties", "required"}
        assert set(parameters.get("required", [])) <= set(parameters["properties"])
        jsonschema_rs.meta.validate(parameters)


@pytest.mark.scenario("S3.16.2")
def test_s3_16_2_qwen_model_can_parse_converted_tools() -> None:
    """The request of ChatOllama has the tools in exactly the documented form; a real model understands them."""
    with OllamaServer() as server:
        asked = Asked("zwave__control_switch", {"deviceName": "Switch One", "action": "on"})
        server.play(Step(calls=[asked]))
        answer = ask(server.url, "turn on Switch One")
    assert server.violations == []
    assert server.requests[0].body == {
        "model": "qwen3:0.6b",
        "stream": True,
        "options": {"temperature": 0.0},
        "messages": [{"role": "user", "content": "turn on Switch One"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "zwave__control_switch",
                    "description": "Switch a device on or off.",
                    "parameters": SWITCH,
                },
            }
        ],
    }
    assert server.tools_as_read == server.requests[0].body["tools"], "the server drops nothing of it either"
    assert [(it["name"], it["args"]) for it in answer.tool_calls] == [(asked.name, asked.arguments)]
    url = real_server()
    if url is not None:  # tests/e2e/test_qwen.py says so where there is none; tests/real_model brings its own
        prove_with_a_model(url)
