"""A parameter that takes the key of the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolrun import DefinitionError, Runtime, ToolContext, ToolExecutor, ToolManager, ToolSettings, tool
from toolrun.clients.dialect import for_provider
from toolrun.json import JSON
from toolrun.tools.key_argument import hide_key_argument, without_parameter

FUNCTIONS = '''
from toolrun import ToolContext, tool

@tool
async def pay(amount: int, request_id: str, context: ToolContext) -> list:
    """Pay."""
    return [amount, request_id == context.idempotency_key]

@tool(isolated=True)
def pay_elsewhere(amount: int, request_id: str) -> list:
    """Pay."""
    return [amount, len(request_id)]
'''
SCRIPT = '''# /// script
# dependencies = []
# ///
from toolrun_sdk import idempotency_key

def script(amount: int, request_id: str) -> list:
    """Pay."""
    return [amount, request_id == idempotency_key()]
'''
CATALOG = """
tools:
  - name: declared
    description: Pay.
    parameters:
      type: object
      properties: {amount: {type: integer}, request_id: {type: string}}
      required: [request_id]
    implementation: {type: internal, handler: pay}
"""


def test_a_schema_without_a_parameter_is_otherwise_the_same() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "key": {"type": "string"}},
        "required": ["key", "amount"],
        "dependentRequired": {"amount": ["key", "amount"], "key": ["amount"]},
        "additionalProperties": False,
    }
    assert without_parameter(schema, "key") == {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
        "dependentRequired": {"amount": ["amount"]},
        "additionalProperties": False,
    }
    assert "key" in schema["properties"]


def test_a_parameter_that_is_not_there_is_named_with_those_that_are() -> None:
    @tool
    def pay(amount: int) -> None:
        """Pay."""

    with pytest.raises(DefinitionError, match=r"\[tool.pay\] key_argument: .* no parameter 'key'.*: amount"):
        hide_key_argument(pay, "key")


async def test_a_parameter_in_the_form_of_a_uuid_is_filled_in_that_form(executor: ToolExecutor) -> None:
    class Pay:
        name, description = "pay", "Pay."

        def __init__(self) -> None:
            properties = {"id": {"type": "string", "format": "uuid"}}
            self.schema: Any = {"type": "object", "properties": properties, "required": ["id"]}

        async def ainvoke(self, arguments: Any) -> str:
            return str(arguments["id"])

    pay = executor.manager.add(Pay())
    hide_key_argument(pay, "id")
    result = await executor.execute("pay")
    assert [len(part) for part in str(result.result).split("-")] == [8, 4, 4, 4, 12]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    for name, text in (("functions.py", FUNCTIONS), ("script.py", SCRIPT), ("catalog.yaml", CATALOG)):
        (tmp_path / "tools" / name).write_text(text)
    names = ("pay", "pay_elsewhere", "script", "declared")
    sections = "".join(f'[tool.{name}]\nkey_argument = "request_id"\n' for name in names)
    (tmp_path / "toolrun.toml").write_text(sections)
    return tmp_path


async def test_tools_of_every_kind_get_the_key_as_their_argument_and_models_do_not_see_it(project: Path) -> None:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        runtime.register_internal("pay", lambda arguments: [arguments["amount"], len(arguments["request_id"])])
        expected = {"pay": [1, True], "pay_elsewhere": [1, 32], "script": [1, True], "declared": [1, 32]}
        assert runtime.problems == []
        for name, answer in expected.items():
            found = runtime.manager.get(name)
            assert found is not None
            assert "request_id" not in str(for_provider([found], "openai").tools)
            own: dict[str, JSON] = {"amount": 1, "request_id": "of the model's own"}
            for arguments in ({"amount": 1}, own):
                assert (await runtime.executor.execute(name, arguments)).result == answer


async def test_a_wrong_key_argument_leaves_the_tool_out_and_says_why(project: Path) -> None:
    (project / "toolrun.toml").write_text('[tool.pay]\nkey_argument = "nonce"\n')
    async with Runtime.open(project / "toolrun.toml") as runtime:
        (problem,) = runtime.problems
        assert "no parameter 'nonce'" in problem.message
        assert runtime.manager.get("pay") is None
        assert runtime.manager.get("pay_elsewhere") is not None


async def test_a_tool_that_takes_the_key_is_repeated_in_doubt_because_its_destination_knows_the_key(
    project: Path,
) -> None:
    (project / "tools" / "functions.py").write_text('''
from toolrun import tool

ran = []

@tool
async def pay(amount: int, request_id: str) -> list:
    """Pay."""
    ran.append(request_id)
    if len(ran) == 1:
        raise TimeoutError
    return ran
''')
    (project / "toolrun.toml").write_text('[tool.pay]\nkey_argument = "request_id"\n')
    async with Runtime.open(project / "toolrun.toml") as runtime:
        first = await runtime.executor.execute("pay", {"amount": 1}, key="k")
        again = await runtime.executor.execute("pay", {"amount": 1}, key="k")
    assert not first.success
    assert isinstance(again.result, list)
    assert again.result[0] == again.result[1]


@pytest.mark.parametrize("again", [{"amount": 1, "request_id": "made up anew"}, '{"request_id": "", "amount": 1}'])
async def test_what_a_model_makes_up_for_the_parameter_does_not_make_it_another_call(
    project: Path, again: dict[str, JSON] | str
) -> None:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        first = await runtime.executor.execute("pay", {"amount": 1, "request_id": "made up"}, key="k")
        second = await runtime.executor.execute("pay", again, key="k")
        other = await runtime.executor.execute("pay", {"amount": 2, "request_id": "made up"}, key="k")
    assert (first.result, second.result, second.replayed) == ([1, True], [1, True], True)
    assert "already in use for another call" in str(other.error)


async def test_an_executor_without_a_project_fills_and_hides_it_by_its_settings() -> None:
    @tool
    async def pay(amount: int, request_id: str, context: ToolContext) -> list[Any]:
        """Pay."""
        return [amount, request_id == context.idempotency_key]

    settings = {"pay": ToolSettings(key_argument="request_id")}
    executor = ToolExecutor(ToolManager([pay]), settings=settings)
    for text in ('{"amount": 1}', '{"amount": 1, "request_id": "made up"}'):
        assert (await executor.execute("pay", text)).result == [1, True]
    assert "request_id" not in str(pay.schema)
    assert (await executor.find("pay")).effects == "keyed"
    await executor.close()


async def test_an_executor_whose_settings_name_a_parameter_that_is_not_there_does_not_run_the_tool() -> None:
    ran: list[int] = []

    @tool
    async def pay(amount: int) -> None:
        """Pay."""
        ran.append(amount)

    executor = ToolExecutor(ToolManager([pay]), settings={"pay": ToolSettings(key_argument="request_id")})
    result = await executor.execute("pay", {"amount": 1})
    assert result.error is not None
    assert "the tool has no parameter 'request_id'" in result.error
    assert ran == []
