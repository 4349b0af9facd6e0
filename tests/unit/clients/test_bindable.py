"""What `bind_tools` gets: LangChain's tools, which say the same as the form on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from providers.offered import TOOLS, ServerTool
from toolrun.clients.bindable import bindable
from toolrun.clients.dialect import for_provider

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}, "title": {"type": "string"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}


def without_titles(schema: Any) -> Any:
    """LangChain leaves out most titles, which are names of Python classes and fields."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_titles(item) for key, item in schema.items() if not (key == "title" and isinstance(item, str))}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_langchain_makes_the_form_of_the_wire_from_them_and_loses_nothing_but_titles(provider: str) -> None:
    offer = for_provider([*TOOLS, ServerTool("bare", "", {"type": "object", "properties": {}})], provider)
    tools = bindable(offer)
    assert all(isinstance(tool, BaseTool) for tool in tools)
    made = [convert_to_openai_tool(tool)["function"] for tool in tools]
    assert [
        (it["name"], it["description"], without_titles({**it["parameters"], "description": None})) for it in made
    ] == [(it.name, it.description, without_titles({**it.parameters, "description": None})) for it in offer.definitions]


def test_the_description_of_a_schema_is_told_with_that_of_its_tool() -> None:
    schema = {"type": "object", "properties": {}, "description": "Only on Sundays."}
    [tool] = bindable(for_provider([ServerTool("rest", "Rest.", schema)], "anthropic"))
    assert convert_to_openai_tool(tool)["function"]["description"] == "Rest.\nOnly on Sundays."


def test_a_schema_that_refers_to_itself_is_converted() -> None:
    [tool] = bindable(for_provider([ServerTool("tree", "A tree.", TREE)], "anthropic"))
    parameters = convert_to_openai_tool(tool)["function"]["parameters"]
    assert parameters["properties"].keys() == {"node", "title"}
    assert "$ref" not in str(parameters) or "$defs" in parameters
