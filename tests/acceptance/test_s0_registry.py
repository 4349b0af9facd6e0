"""S0.2 and S0.3: the registry of tools and their definitions."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from acceptance.kinds import ObjectTool, as_function, as_langchain
from acceptance.project import Project, declaration
from acceptance.proofs import prove_definition, prove_uniqueness
from providers.base import Step
from providers.clients import open_side
from toolrun import ToolExecutor, ToolManager
from toolrun.tools.protocol import schema_of


@pytest.mark.scenario("S0.2.1")
async def test_s0_2_1_register_tool_at_startup(project: Project) -> None:
    """When the application starts, every tool of its files is registered with its definition and what executes it."""
    project.write(
        "tools/sums.py",
        '''
        from toolrun import tool

        @tool
        async def add(a: int, b: int) -> int:
            """Add two integers."""
            return a + b

        @tool
        def double(a: int) -> int:
            """Double an integer."""
            return 2 * a
        ''',
    )
    project.declare(
        declaration("repeat", {"type": "builtin", "handler": "echo"}, a={"type": "integer"}),
        declaration("answer", {"type": "mock", "mock_response": 42}),
    )
    arguments = {"add": {"a": 1, "b": 2}, "double": {"a": 4}, "repeat": {"a": 5}, "answer": {}}
    async with project.open() as runtime:
        assert not runtime.problems
        assert [it.name for it in runtime.manager.tools] == ["add", "double", "repeat", "answer"]
        tools: list[Any] = runtime.manager.tools
        for it in tools:
            assert it.description
            assert it.schema["type"] == "object"
            assert callable(it.invoke)
        results = {name: (await runtime.executor.execute(name, given)).result for name, given in arguments.items()}
    assert results == {"add": 3, "double": 8, "repeat": {"echo": {"a": 5}}, "answer": 42}


@pytest.mark.scenario("S0.2.2")
async def test_s0_2_2_get_tool_definition(executor: ToolExecutor) -> None:
    """A client gets the definitions of all tools in a list, and sends each in the format of its provider."""

    async def add(a: int, b: int = 1) -> int:
        """Add two integers.

        Args:
            a: The first one
        """
        return a + b

    async def negate(a: int) -> int:
        """Negate an integer."""
        return -a

    for made in (add, as_langchain(negate), ObjectTool()):
        executor.manager.add(made)
    tools = executor.manager.tools
    assert isinstance(tools, list)
    definitions: list[dict[str, Any]] = [
        {"name": it.name, "description": it.description, "parameters": dict(schema_of(it))} for it in tools
    ]
    assert [(it["name"], it["description"]) for it in definitions] == [
        ("add", "Add two integers."),
        ("negate", "Negate an integer."),
        ("object", "An object that is a tool."),
    ]
    parameters = definitions[0]["parameters"]
    assert (parameters["type"], parameters["required"]) == ("object", ["a"])
    assert parameters["properties"] == {
        "a": {"type": "integer", "description": "The first one"},
        "b": {"type": "integer", "default": 1},
    }
    for it in definitions:
        jsonschema_rs.meta.validate(it["parameters"])
        function = convert_to_openai_tool(it)["function"]
        assert (function["name"], function["parameters"]) == (it["name"], it["parameters"]), "a provider takes it so"
    sent = {}
    for kind in ("anthropic whole", "ollama whole"):
        with open_side(kind) as side:
            side.server.play(Step(text="Hello."))
            await side.client(executor).query("Hello?")
            sent[side.provider] = side.server.bodies[0]["tools"]
    assert [(it["name"], it["description"]) for it in sent["anthropic"]] == [
        (it["name"], it["description"]) for it in definitions
    ]
    assert sent["anthropic"][0]["input_schema"]["properties"] == parameters["properties"]
    assert [it["input_schema"]["required"] for it in sent["anthropic"]] == [["a"], ["a"], ["x"]]
    assert [(it["type"], it["function"]["name"]) for it in sent["ollama"]] == [
        ("function", it["name"]) for it in definitions
    ]
    assert [it["function"]["parameters"]["required"] for it in sent["ollama"]] == [["a"], ["a"], ["x"]]


@pytest.mark.scenario("S0.2.3")
async def test_s0_2_3_get_tool_executor_function() -> None:
    """By its name the registry gives the tool with the function that executes it."""

    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    def subtract(a: int, b: int) -> int:
        """Subtract an integer from another."""
        return a - b

    manager = ToolManager([add, subtract])
    found: list[Any] = [manager.get("subtract"), manager.get("add")]
    assert found[0].function is subtract
    assert [it.invoke({"a": 5, "b": 3}) for it in found] == [2, 8]


@pytest.mark.scenario("S0.3.1")
def test_s0_3_1_validate_tool_definition() -> None:
    """A registered tool has a unique name, a description and a JSON Schema; one that has not is refused."""
    prove_definition(as_function)


@pytest.mark.scenario("S0.3.2")
async def test_s0_3_2_ensure_tool_uniqueness(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """A tool with a name that is taken logs a warning and replaces the earlier one."""
    await prove_uniqueness(executor, as_function, caplog)
