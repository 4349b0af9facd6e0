"""S0.7 and S0.9: stdout of an MCP server is the protocol's, the log is on stderr."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acceptance.server import prove_clean_stdout, prove_debug_output, prove_debug_output_of_zwave, prove_responses


@pytest.mark.scenario("S0.7.1")
async def test_s0_7_1_mcp_server_debug_logs(tmp_path: Path) -> None:
    """Debug information of a tool that is executing in the Z-Wave MCP server, or in toolrun's own, goes to stderr."""
    await prove_debug_output_of_zwave(tmp_path)
    await asyncio.to_thread(prove_debug_output, tmp_path)


@pytest.mark.scenario("S0.9.1")
def test_s0_9_1_debug_logs_use_stderr(tmp_path: Path) -> None:
    """Debug and diagnostic output of the server is on stderr, not on stdout."""
    prove_debug_output(tmp_path)


@pytest.mark.scenario("S0.9.2")
def test_s0_9_2_json_rpc_messages_use_stdout(tmp_path: Path) -> None:
    """Responses are on stdout, as newline-delimited JSON."""
    prove_responses(tmp_path)


@pytest.mark.scenario("S0.9.3")
def test_s0_9_3_prevent_stdout_pollution(tmp_path: Path) -> None:
    """Every line that a client reads is valid JSON-RPC."""
    prove_clean_stdout(tmp_path)
