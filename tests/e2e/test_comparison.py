"""What docs/comparison.md says of LangGraph and Pydantic AI as `tested`, against the real packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolrun import ToolExecutor, ToolManager, tool

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


def fail() -> str:
    """Fail."""
    raise ValueError("the lamp is broken")


def count(names: list[str]) -> int:
    """Count names."""
    return len(names)


def lamp(deviceName: str) -> str:  # as a foreign schema has it
    """Switch a lamp."""
    return deviceName


def large() -> str:
    """Return much."""
    return "x" * 1_000_000


async def by_toolrun(function: Callable[..., Any], arguments: dict[str, Any], name: str = "") -> str:
    executor = ToolExecutor(ToolManager([tool(function)]))
    try:
        return (await executor.execute(name or function.__name__, arguments)).text
    finally:
        await executor.close()


async def by_langgraph(function: Callable[..., Any], arguments: dict[str, Any], name: str = "") -> str:
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([function]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    call = {"name": name or function.__name__, "args": arguments, "id": "1", "type": "tool_call"}
    state = await graph.compile().ainvoke({"messages": [AIMessage(content="", tool_calls=[call])]})
    return str(state["messages"][-1].content)


async def by_pydantic_ai(function: Callable[..., Any], arguments: dict[str, Any], name: str = "") -> str:
    """What the model is answered to its first call."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    answers: list[str] = []

    def model(messages: list[Any], info: object) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart(name or function.__name__, arguments)])
        answers.append(str(messages[-1].parts[-1].content))
        return ModelResponse([TextPart("done")])

    await Agent(FunctionModel(model), tools=[function]).run("go")
    return answers[0]


async def test_a_tool_that_raises_ends_the_run_of_the_others() -> None:
    assert await by_toolrun(fail, {}) == "Error: the lamp is broken"
    with pytest.raises(ValueError, match="the lamp is broken"):
        await by_langgraph(fail, {})
    with pytest.raises(ValueError, match="the lamp is broken"):
        await by_pydantic_ai(fail, {})


async def test_an_unknown_tool_is_answered_by_all() -> None:
    assert "Did you mean count?" in await by_toolrun(count, {}, "coutn")
    assert "count" in re.sub("coutn", "", await by_langgraph(count, {}, "coutn"))
    assert "count" in re.sub("coutn", "", await by_pydantic_ai(count, {}, "coutn"))


async def test_a_list_sent_as_text_is_repaired_by_toolrun_only() -> None:
    assert await by_toolrun(count, {"names": '["x"]'}) == "1"
    assert "valid list" in await by_langgraph(count, {"names": '["x"]'})
    assert "list_type" in await by_pydantic_ai(count, {"names": '["x"]'})


async def test_a_name_in_another_case_is_repaired_by_toolrun_only() -> None:
    assert await by_toolrun(lamp, {"device_name": "desk"}) == "desk"
    assert "Field required" in await by_langgraph(lamp, {"device_name": "desk"})
    assert "missing" in await by_pydantic_ai(lamp, {"device_name": "desk"})


async def test_a_large_result_reaches_the_model_of_the_others_whole() -> None:
    assert len(await by_toolrun(large, {})) < 110_000
    assert len(await by_langgraph(large, {})) == 1_000_000
    assert len(await by_pydantic_ai(large, {})) == 1_000_000


def test_every_row_of_the_page_has_its_source() -> None:
    """A row says `tested` or `measured`, or each statement about another package that is more than "–" has a link."""
    text = PAGE.read_text(encoding="utf-8")
    first, _, third = (part.split("## ", 1)[0] for part in re.split(r"^## (?:When|What)[^\n]*\n", text, flags=re.M)[1:])
    tested = [row for row in first.splitlines() if row.endswith("tested |")]
    assert len(tested) == len([name for name in globals() if name.startswith("test_a")])
    for row in re.findall(r"^\| (?!-).*\|$", third, re.M)[1:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")][2:]
        told = [cell for cell in cells if cell not in ("–", "yes", "") and not cell.startswith("those of")]
        assert all("](" in cell for cell in told), row
