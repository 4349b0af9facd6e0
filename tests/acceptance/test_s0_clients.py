"""S0.6: AI clients execute tools through the ToolExecutor."""

from __future__ import annotations

import pytest

from acceptance.clients import prove_delegation
from providers.clients import open_side


@pytest.mark.scenario("S0.6.1")
async def test_s0_6_1_anthropic_tool_execution() -> None:
    """Tool calls that AnthropicClient receives from the model are executed by the ToolExecutor instance."""
    with open_side("anthropic streamed") as side:
        await prove_delegation(side)


@pytest.mark.scenario("S0.6.2")
async def test_s0_6_2_ollama_tool_execution() -> None:
    """Tool calls that OllamaClient receives from the model are executed by the ToolExecutor instance."""
    with open_side("ollama streamed") as side:
        await prove_delegation(side)
