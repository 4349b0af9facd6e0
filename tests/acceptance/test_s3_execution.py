"""S3.1, S3.4, S3.5 and S3.8: the executor, with LangChain tools."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from pydantic import Field

from acceptance.clock import Clock
from acceptance.kinds import ObjectTool, as_langchain
from acceptance.proofs import (
    call_fields,
    call_record,
    prove_execution_by_name,
    prove_invalid_arguments,
    prove_log_of_execution,
    prove_log_of_slow_tools,
    prove_measured_time,
    prove_network_error,
    prove_timeout,
    prove_tool_error,
    prove_unknown_tool,
)
from toolrun import ToolExecutor


@pytest.mark.scenario("S3.1.1")
async def test_s3_1_1_execute_tool_by_name(executor: ToolExecutor) -> None:
    """A call with a tool's name and arguments runs that tool and returns its result."""
    await prove_execution_by_name(executor, as_langchain)


@pytest.mark.scenario("S3.1.2")
async def test_s3_1_2_log_tool_execution(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """An executed call is logged with the tool's name, the arguments, the execution time and the result."""
    await prove_log_of_execution(executor, as_langchain, caplog)


@pytest.mark.scenario("S3.1.3")
async def test_s3_1_3_handle_unknown_tool(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """A call of a tool that does not exist logs a warning and is answered that the tool is unknown."""
    await prove_unknown_tool(executor, as_langchain, caplog)


@pytest.mark.scenario("S3.1.4")
async def test_s3_1_4_handle_tool_execution_error(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """A tool that raises is logged as an error with its context and answered with a message for people."""
    await prove_tool_error(executor, as_langchain, caplog)


@pytest.mark.scenario("S3.4.1")
async def test_s3_4_1_execute_tool_directly_via_invoke(executor: ToolExecutor) -> None:
    """The executor calls the tool's own `invoke` (or `ainvoke`) with the arguments; nothing is wrapped around it."""

    plain = ObjectTool()

    class Doubler(BaseTool):
        name: str = "double"
        description: str = "Double a number."
        args_schema: Any = plain.schema
        inputs: list[Any] = Field(default_factory=list)

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            self.inputs.append((input, config, kwargs))
            return super().invoke(input, config, **kwargs)

        def _run(self, x: int) -> int:
            return 2 * x

    doubler = Doubler()
    for made in (plain, doubler):
        assert executor.manager.add(made) is made
        assert executor.manager.get(made.name) is made
    assert (await executor.execute("object", {"x": 5})).result == "got 5"
    assert plain.received == [{"x": 5}]
    assert (await executor.execute("double", {"x": 5})).result == 10
    assert doubler.inputs == [({"x": 5}, None, {})]

    async def halve(x: int) -> float:
        """Halve a number."""
        return x / 2

    executor.manager.add(as_langchain(halve))
    assert (await executor.execute("halve", {"x": 5})).result == 2.5


@pytest.mark.scenario("S3.4.2")
async def test_s3_4_2_tool_execution_timeout_and_error_handling(
    executor: ToolExecutor, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Execution ends at a timeout (30 s by default), errors become messages for people, time and result are logged."""
    await prove_timeout(as_langchain, clock)

    async def divide(a: int, b: int) -> float:
        """Divide."""
        clock.skip(0.125)
        if b == 0:
            raise ValueError("Nothing can be divided by 0.")
        return a / b

    executor.manager.add(as_langchain(divide))
    caplog.clear()
    failed = await executor.execute("divide", {"a": 1, "b": 0})
    assert failed.text == "Error: Nothing can be divided by 0."
    assert call_fields(call_record(caplog))["ms"] == failed.execution_time_ms == 125
    assert call_fields(call_record(caplog))["error"] == "Nothing can be divided by 0."
    assert "divide tool_error 125.0 ms" in call_record(caplog).getMessage()
    caplog.clear()
    with caplog.at_level(logging.INFO, "toolrun.call"):
        divided = await executor.execute("divide", {"a": 1, "b": 4})
    fields = call_fields(call_record(caplog))
    assert (fields["ms"], fields["result"]) == (divided.execution_time_ms, "0.25") == (125, "0.25")
    assert "125.0 ms" in call_record(caplog).getMessage()
    assert "result=0.25" in call_record(caplog).getMessage()


@pytest.mark.scenario("S3.5.1")
async def test_s3_5_1_measure_tool_execution_time(executor: ToolExecutor, clock: Clock) -> None:
    """The measured time of a call is that from its start to its completion: exactly what a stopped clock was moved."""
    await prove_measured_time(executor, as_langchain, clock)


@pytest.mark.scenario("S3.5.2")
async def test_s3_5_2_log_slow_tools(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A call of more than 1000 ms, or what is configured, logs a warning with the tool's name and the duration."""
    await prove_log_of_slow_tools(as_langchain, clock, caplog)


@pytest.mark.scenario("S3.8.1")
async def test_s3_8_1_network_error(executor: ToolExecutor, closed_port: int) -> None:
    """A tool that fails because a connection is refused or a network unreachable says: service unavailable."""
    await prove_network_error(executor, as_langchain, closed_port)


@pytest.mark.scenario("S3.8.2")
async def test_s3_8_2_invalid_arguments(executor: ToolExecutor) -> None:
    """A call with invalid or missing arguments is answered with a message that describes the required parameters."""
    await prove_invalid_arguments(executor, as_langchain)


@pytest.mark.scenario("S3.8.3")
async def test_s3_8_3_timeout(clock: Clock) -> None:
    """A tool is cancelled and answered with a timeout error after 30 s, or what is configured, and not before."""
    await prove_timeout(as_langchain, clock)
