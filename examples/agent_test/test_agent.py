import asyncio
from collections.abc import Callable

import pytest

from toolrun import ToolCall, ToolExecutor, ToolManager, tool
from toolrun.clients import ModelClient
from toolrun.testing import ScriptedModel


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def ask(paid: list[int]) -> Callable[..., str]:
    @tool
    def pay(amount: int) -> str:
        """Pay an invoice."""
        paid.append(amount)
        return f"paid {amount}"

    executor = ToolExecutor(ToolManager([pay]))
    return lambda *script: asyncio.run(ModelClient(ScriptedModel(script), executor).query("Pay 5")).text


def test_it_pays_what_was_asked(ask: Callable[..., str], paid: list[int]) -> None:
    said = ask(ToolCall("1", "pay", {"amount": "5"}), "I {result}.")
    assert (said, paid) == ("I paid 5.", [5])


def test_it_pays_nothing_that_it_cannot_read(ask: Callable[..., str], paid: list[int]) -> None:
    ask(ToolCall("1", "pay", {"amount": "five"}), "How much?")
    assert paid == []
