"""The kinds of tools that the same behaviour is asked of: a function, one of LangChain's, any object that will do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from toolrun import tool

Make = Callable[[Callable[..., Any]], Any]

as_function: Make = tool


def as_langchain(function: Callable[..., Any]) -> BaseTool:
    """The function as a LangChain tool, made by LangChain alone."""
    if inspect.iscoroutinefunction(function):
        return StructuredTool.from_function(coroutine=function)
    return StructuredTool.from_function(function)


@dataclass
class ObjectTool:
    """A tool that is neither a function nor LangChain's: an object with what a tool has to have."""

    name: Any = "object"
    description: Any = "An object that is a tool."
    schema: Any = None

    def __post_init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        if self.schema is None:
            self.schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    def invoke(self, arguments: dict[str, Any]) -> str:
        self.received.append(arguments)
        return f"got {arguments['x']}"
