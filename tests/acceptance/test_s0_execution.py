"""S0.1 and S0.4: the central executor, and what it asks of a tool."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from acceptance.kinds import ObjectTool, as_function
from acceptance.project import Project, declaration
from acceptance.proofs import prove_execution_by_name, prove_log_of_execution, prove_tool_error, prove_unknown_tool
from toolrun import ErrorKind, ToolError, ToolExecutor


@pytest.mark.scenario("S0.1.1")
async def test_s0_1_1_execute_tool_by_name(executor: ToolExecutor) -> None:
    """A call with a tool's name and arguments runs that tool's function and returns its result."""
    await prove_execution_by_name(executor, as_function)


@pytest.mark.scenario("S0.1.2")
async def test_s0_1_2_log_tool_execution(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """An executed call is logged with the tool's name, the arguments, the execution time and the result."""
    await prove_log_of_execution(executor, as_function, caplog)


@pytest.mark.scenario("S0.1.3")
async def test_s0_1_3_handle_unknown_tool(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """A call of a tool that does not exist logs a warning and is answered that the tool is unknown."""
    await prove_unknown_tool(executor, as_function, caplog)


@pytest.mark.scenario("S0.1.4")
async def test_s0_1_4_handle_tool_execution_error(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """A tool that raises is logged as an error with its context and answered with a message for people."""
    await prove_tool_error(executor, as_function, caplog)


@pytest.mark.scenario("S0.4.1")
async def test_s0_4_1_tool_executor_signature(executor: ToolExecutor, project: Project) -> None:
    """What executes a tool, be it an object or a service, receives one object of arguments by name."""
    made = executor.manager.add(ObjectTool())
    assert (await executor.execute("object", {"x": 5})).success
    assert made.received == [{"x": 5}]

    received: list[Any] = []
    project.declare(declaration("lamp", {"type": "internal", "handler": "lamps"}, on={"type": "boolean"}))
    async with project.open() as runtime:
        runtime.register_internal("lamps", received.append)
        assert (await runtime.executor.execute("lamp", {"on": True})).success
    assert received == [{"on": True}]


@pytest.mark.scenario("S0.4.2")
async def test_s0_4_2_tool_executor_return_value(executor: ToolExecutor) -> None:
    """Execution can be awaited, and whatever the tool returns the result can be had as a string that describes it."""
    values: dict[str, Any] = {"Hello": "Hello", "7": 7, "true": True, '{"a":[1,2]}': {"a": [1, 2]}, "(no output)": None}

    @executor.manager.add
    async def give(text: str) -> Any:
        """Return the value that has this text."""
        return values[text]

    for text in values:
        execution = executor.execute("give", {"text": text})
        assert inspect.isawaitable(execution)
        result = await execution
        assert result.success
        assert isinstance(result.text, str)
        assert result.text == text


@pytest.mark.scenario("S0.4.3")
async def test_s0_4_3_tool_executor_error_handling(executor: ToolExecutor) -> None:
    """A tool reports a failure by raising an error, whose message reaches the user as it is."""

    @executor.manager.add
    async def unlock(door: str) -> None:
        """Unlock a door."""
        raise ToolError(f"The {door} door is jammed. Ask someone to push it.")

    @executor.manager.add
    def ring(door: str) -> None:
        """Ring at a door."""
        raise ValueError(f"The {door} door has no bell.")

    unlocked = await executor.execute("unlock", {"door": "front"})
    rung = await executor.execute("ring", {"door": "back"})
    assert unlocked.text == "Error: The front door is jammed. Ask someone to push it."
    assert rung.text == "Error: The back door has no bell."
    assert unlocked.error_kind is rung.error_kind is ErrorKind.TOOL_ERROR
