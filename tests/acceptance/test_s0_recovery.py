"""S0.5 and S0.8: measured time, slow tools, and failures that people can understand."""

from __future__ import annotations

import pytest

from acceptance.clock import Clock
from acceptance.kinds import as_function
from acceptance.proofs import (
    prove_invalid_arguments,
    prove_log_of_slow_tools,
    prove_measured_time,
    prove_network_error,
    prove_timeout,
)
from toolrun import ToolExecutor


@pytest.mark.scenario("S0.5.1")
async def test_s0_5_1_measure_tool_execution_time(executor: ToolExecutor, clock: Clock) -> None:
    """The measured time of a call is that from its start to its completion: exactly what a stopped clock was moved."""
    await prove_measured_time(executor, as_function, clock)


@pytest.mark.scenario("S0.5.2")
async def test_s0_5_2_log_slow_tools(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A call of more than 1000 ms, or what is configured, logs a warning with the tool's name and the duration."""
    await prove_log_of_slow_tools(as_function, clock, caplog)


@pytest.mark.scenario("S0.8.1")
async def test_s0_8_1_network_error(executor: ToolExecutor, closed_port: int) -> None:
    """A tool that fails because a connection is refused or a network unreachable says: service unavailable."""
    await prove_network_error(executor, as_function, closed_port)


@pytest.mark.scenario("S0.8.2")
async def test_s0_8_2_invalid_arguments(executor: ToolExecutor) -> None:
    """A call with invalid or missing arguments is answered with a message that describes the required parameters."""
    await prove_invalid_arguments(executor, as_function)


@pytest.mark.scenario("S0.8.3")
async def test_s0_8_3_timeout(clock: Clock) -> None:
    """A tool is cancelled and answered with a timeout error after 30 s, or what is configured, and not before."""
    await prove_timeout(as_function, clock)
