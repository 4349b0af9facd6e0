"""The one way in for tools: a function becomes a `FunctionTool`, any other tool object stays what it is."""

from __future__ import annotations

from typing import cast

from toolrun.errors import DefinitionError
from toolrun.tools.function import FunctionTool
from toolrun.tools.langchain_tool import check_langchain, is_langchain
from toolrun.tools.protocol import Tool, check_name, schema_of


def adapt(candidate: object) -> Tool:
    """The tool that `candidate` is or makes. Raises DefinitionError for an object that cannot be a tool."""
    tool = _tool(candidate)
    description = getattr(tool, "description", None)
    if not isinstance(description, str) or not description.strip():
        raise DefinitionError(
            f"Tool '{tool.name}' has no description, so a model cannot know when to use it. "
            "Add a docstring, or pass description=."
        )
    if not isinstance(tool, FunctionTool):
        _check_schema(tool)
    return tool


def _tool(candidate: object) -> Tool:
    if isinstance(candidate, FunctionTool):
        return candidate
    if not isinstance(candidate, type):
        if hasattr(candidate, "invoke") or hasattr(candidate, "ainvoke"):
            check_name(getattr(candidate, "name", None))
            return cast(Tool, candidate)
        if callable(candidate):
            return FunctionTool(candidate)
    hint = " Pass an instance of the class." if isinstance(candidate, type) else ""
    raise DefinitionError(
        f"{candidate!r:.100} is not a tool: it must be a function, or an object with name, description, schema "
        f"and invoke or ainvoke.{hint}"
    )


def _check_schema(tool: Tool) -> None:
    """The schema of a function is our own work; anybody else's is compiled before a model can meet it."""
    from toolrun.schema import ArgumentSchema  # here, because importing toolrun should not load a validator

    try:
        if is_langchain(tool):
            check_langchain(tool)
        ArgumentSchema(schema_of(tool))
    except DefinitionError as error:
        raise DefinitionError(f"Tool '{tool.name}': {error}") from error
