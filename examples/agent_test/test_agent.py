from collections.abc import Callable

import pytest

from toolrun import ToolCall, ToolExecutor
from toolrun.clients import ModelClient
from toolrun.testing import MockTool, ScriptedModel

AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
Script = Callable[..., ScriptedModel]


@pytest.fixture
def pay(mock_tool: Callable[..., MockTool]) -> MockTool:
    return mock_tool("pay", lambda arguments: f"paid {arguments['amount']}", parameters=AMOUNT)


def test_it_pays_what_was_asked(executor: ToolExecutor, pay: MockTool, scripted_model: Script) -> None:
    model = scripted_model(ToolCall("1", "pay", {"amount": "5"}), "I {result}.")
    assert ModelClient(model, executor).query_sync("Pay 5").text == "I paid 5."
    assert pay.calls == [{"amount": 5}]


def test_it_pays_nothing_that_it_cannot_read(executor: ToolExecutor, pay: MockTool, scripted_model: Script) -> None:
    model = scripted_model(ToolCall("1", "pay", {"amount": "five"}), "How much?")
    ModelClient(model, executor).query_sync("Pay five")
    assert pay.calls == []
