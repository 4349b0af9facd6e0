"""S3.2, S3.3 and S3.13: the collection of tools, whatever made them."""

from __future__ import annotations

import copy
from time import perf_counter
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from acceptance.kinds import ObjectTool, as_langchain
from acceptance.proofs import prove_definition, prove_uniqueness
from toolrun import ErrorKind, ToolExecutor, ToolManager, tool


def adapter_tools() -> list[BaseTool]:
    """Tools as LangChain's MCP adapters make them of what a server lists: schemas as dicts, content with artifacts."""

    def made(name: str, **properties: str) -> BaseTool:
        async def call(**arguments: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
            return [{"type": "text", "text": f"{name} {arguments}"}], {"structured_content": arguments}

        return StructuredTool(
            name=name,
            description=f"The server's {name}.",
            args_schema={
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in properties.items()},
                "required": list(properties),
            },
            coroutine=call,
            response_format="content_and_artifact",
            metadata={"server": "zwave"},
        )

    return [made("control_device", deviceName="string", level="integer"), made("list_devices")]


@pytest.mark.scenario("S3.2.1")
async def test_s3_2_1_add_mcp_tools_from_langchain_adapters(executor: ToolExecutor) -> None:
    """Tools of LangChain's MCP adapters are kept as they are, in one list, in LangChain's own format."""
    discovered = adapter_tools()
    before = [copy.copy(vars(it)) for it in discovered]
    schemas = [copy.deepcopy(it.args_schema) for it in discovered]
    for it in discovered:
        executor.manager.add(it)
    result = await executor.execute("control_device", {"deviceName": "Switch One", "level": 3})
    assert result.text == "control_device {'deviceName': 'Switch One', 'level': 3}"
    tools: list[Any] = executor.manager.tools
    assert isinstance(tools, list)
    assert all(kept is it for kept, it in zip(tools, discovered, strict=True))
    assert all(isinstance(it, StructuredTool) for it in tools)
    assert [it.args_schema for it in tools] == schemas
    for it, was in zip(tools, before, strict=True):
        assert all(vars(it)[key] is value for key, value in was.items()), "not even the coroutine was wrapped"


@pytest.mark.scenario("S3.2.2")
async def test_s3_2_2_add_custom_tools(executor: ToolExecutor) -> None:
    """A custom tool with `name`, `description`, `schema` and `invoke` is added as it is: not converted, not wrapped."""
    custom = ObjectTool()
    before, schema = dict(vars(custom)), copy.deepcopy(custom.schema)
    executor.manager.add(custom)
    assert executor.manager.tools[0] is custom
    assert (await executor.execute("object", {"x": 5})).result == "got 5"
    assert custom.received == [{"x": 5}]
    assert vars(custom).keys() == before.keys()
    assert all(vars(custom)[key] is before[key] for key in before)
    assert custom.schema == schema
    assert (custom.name, custom.description) == ("object", "An object that is a tool.")

    @tool
    async def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    assert executor.manager.add(shout) is shout
    assert executor.manager.tools[1] is shout
    assert isinstance(shout.schema, dict)
    said: Any = shout.invoke({"text": "hi"})
    assert await said == "HI", "a function tool has the same interface"


@pytest.mark.scenario("S3.2.3")
def test_s3_2_3_get_all_tools_for_ai_client() -> None:
    """A client gets the list of the tools themselves, with nothing converted or extracted."""
    added = [*adapter_tools(), ObjectTool()]
    manager = ToolManager(added)
    tools: list[Any] = manager.tools
    assert isinstance(tools, list)
    assert len(tools) == 3
    assert all(got is it for got, it in zip(tools, added, strict=True))
    offered = convert_to_openai_tool(tools[0])["function"]
    assert offered["name"] == "control_device"
    assert offered["parameters"]["required"] == ["deviceName", "level"], "LangChain's own client knows what to do"


@pytest.mark.scenario("S3.2.4")
async def test_s3_2_4_find_tool_by_name_for_execution(executor: ToolExecutor) -> None:
    """A tool is found by `name` or by `lc_name`, and where there is none there is nothing to execute."""

    class Serialized(ObjectTool):
        lc_name = "ZWaveControl"

    other, named = ObjectTool(name="other"), Serialized(name="control_device")
    executor.manager.add(other)
    executor.manager.add(named)
    assert executor.manager.get("other") is other
    assert executor.manager.get("control_device") is named
    assert executor.manager.get("ZWaveControl") is named
    assert executor.manager.get("nothing") is None
    assert (await executor.execute("control_device", {"x": 1})).result == "got 1"
    assert (await executor.execute("ZWaveControl", {"x": 2})).result == "got 2"
    assert (await executor.execute("nothing", {"x": 3})).error_kind is ErrorKind.UNKNOWN_TOOL
    assert named.received == [{"x": 1}, {"x": 2}]
    assert other.received == []


@pytest.mark.scenario("S3.3.1")
def test_s3_3_1_validate_tool_definition() -> None:
    """A registered tool has a unique name, a description and a JSON Schema; one that has not is refused."""
    prove_definition(as_langchain)


@pytest.mark.scenario("S3.3.2")
async def test_s3_3_2_ensure_tool_uniqueness(executor: ToolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    """A tool with a name that is taken logs a warning and replaces the earlier one."""
    await prove_uniqueness(executor, as_langchain, caplog)


@pytest.mark.scenario("S3.13.1")
async def test_s3_13_1_combine_mcp_and_custom_tools(executor: ToolExecutor) -> None:
    """Tools of MCP adapters and custom ones are one list, found by name, and nothing else is kept about them."""
    control, listing = adapter_tools()
    custom = ObjectTool(name="set_volume")
    for it in (control, custom, listing):
        executor.manager.add(it)
    manager = executor.manager
    assert [it.name for it in manager.tools] == ["control_device", "set_volume", "list_devices"]
    for it in (control, custom, listing):
        assert manager.get(it.name) is it
    assert manager.get("nothing") is None
    assert (await executor.execute("list_devices")).text == "list_devices {}"
    assert (await executor.execute("set_volume", {"x": 7})).text == "got 7"
    held = dict(vars(manager))
    assert held.pop("on_change") == [], "who is told of changes is no data about tools"
    [collection] = held.values()
    assert list(collection.values()) == manager.tools, "the one thing that a manager holds are the tools"


@pytest.mark.scenario("S3.13.2")
async def test_s3_13_2_tool_lookup_performance(executor: ToolExecutor) -> None:
    """Looking a tool up by name takes less than a millisecond with the 19 tools of the scenario, and with 10,000.

    Of several rounds the shortest is timed: a busy machine may hold up some of them, but not all. It is a dict, which
    is as simple as the list of the scenario, and keeps its order.
    """

    async def work(x: int) -> int:
        """Work."""
        return x

    manager = executor.manager
    added: list[Any] = []
    for count in (19, 10_000):
        for number in range(len(added), count):
            added.append(manager.add(tool(name=f"tool_{number}")(work)))
        names = [it.name for it in added]
        rounds = []
        for _ in range(20):
            started = perf_counter()
            found = [manager.get(name) for name in names]
            rounds.append((perf_counter() - started) / count)
            assert all(one is other for one, other in zip(found, added, strict=True))
        assert min(rounds) < 0.001
        assert manager.tools == added
    for number in (0, 5_000, 9_999):
        assert (await executor.execute(f"tool_{number}", {"x": number})).result == number
