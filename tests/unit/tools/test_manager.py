"""The collection of tools."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import pytest

from toolrun import DefinitionError, FunctionTool, ToolManager, tool


async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def search(query: str) -> str:
    """Search."""
    return query


class ObjectTool:
    name, description = "object", "Does it."
    schema: ClassVar[Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}

    def invoke(self, arguments: dict[str, Any]) -> object:
        return arguments


def test_tools_are_kept_in_order_and_found_by_name() -> None:
    manager = ToolManager([search, add])
    made = manager.add(tool(name="third")(add))
    assert [it.name for it in manager.tools] == [it.name for it in manager] == ["search", "add", "third"]
    assert manager.get("third") is made
    assert manager.get("nobody") is None
    assert "add" in manager
    assert "nobody" not in manager
    assert len(manager) == 3


def test_a_function_becomes_a_tool_and_a_tool_is_kept_as_it_is() -> None:
    manager = ToolManager(iter([add]))
    made, kept = tool(search), ObjectTool()
    assert isinstance(manager.get("add"), FunctionTool)
    assert manager.add(made) is made is manager.get("search")
    assert manager.add(kept) is kept is manager.get("object")


def test_add_is_a_decorator() -> None:
    manager = ToolManager()

    @manager.add
    def hello() -> str:
        """Say hello."""
        return "hello"

    assert hello() == "hello"
    assert manager.get("hello") is hello


def test_the_list_of_tools_is_a_copy() -> None:
    manager = ToolManager([add])
    manager.tools.clear()
    assert len(manager) == 1


def test_the_later_of_two_tools_of_one_name_wins_in_the_place_of_the_first(caplog: pytest.LogCaptureFixture) -> None:
    manager = ToolManager([add, search])
    later = manager.add(tool(name="add")(search))
    assert manager.tools == [later, manager.get("search")]
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "toolrun")
    assert "'add'" in record.getMessage()
    manager.add(later)
    assert len(caplog.records) == 1, "the same tool again is no replacement"


def test_a_tool_can_be_removed_and_what_is_not_there_too() -> None:
    manager = ToolManager([add, search])
    manager.remove("add")
    manager.remove("add")
    assert [it.name for it in manager] == ["search"]


def test_a_tool_is_also_found_by_the_name_that_langchain_gives_it() -> None:
    class Named(ObjectTool):
        lc_name = "LangName"

    manager = ToolManager([add, Named()])
    assert manager.get("LangName") is manager.get("object")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "there is no schema"),
        ({"type": "string"}, "object"),
        ({"type": "object", "properties": {"x": {"type": "whole"}}}, "whole"),
        ({"type": "object", "properties": {"x": {"$ref": "https://x.org/schema.json"}}}, "https://x.org/schema.json"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_and_the_collection_is_unchanged(schema: object, reason: str) -> None:
    class Broken(ObjectTool):
        pass

    Broken.schema = schema
    manager = ToolManager([add])
    with pytest.raises(DefinitionError) as caught:
        manager.add(Broken())
    assert str(caught.value).startswith("Tool 'object': ")
    assert reason in str(caught.value)
    assert [it.name for it in manager] == ["add"]


def test_changes_are_told_and_nothing_else() -> None:
    manager, changes = ToolManager([add]), []
    manager.on_change.append(lambda: changes.append(list(manager.by_name)))
    made = manager.add(search)
    manager.add(made)
    manager.remove("nobody")
    manager.remove("add")
    manager.get("search")
    assert changes == [["add", "search"], ["search"]]
