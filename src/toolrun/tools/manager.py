"""The collection of tools: one insertion-ordered dict from name to tool, and nothing else.

The tools are kept as they came. What the executor derives from them (validators, limits) is the executor's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar, overload

from toolrun.logger import get_logger
from toolrun.tools.adapt import adapt
from toolrun.tools.function import FunctionTool
from toolrun.tools.protocol import Tool, source_of

logger = get_logger("toolrun")

T = TypeVar("T", bound=Tool)
P = ParamSpec("P")
R = TypeVar("R")


class ToolManager:
    """All the tools, by name and in the order in which they were added."""

    def __init__(self, tools: Iterator[object] | list[object] | tuple[object, ...] = ()) -> None:
        self.by_name: dict[str, Tool] = {}
        """The collection itself, for whoever looks tools up often. To change it, use `add` and `remove`."""
        self.on_change: list[Callable[[], object]] = []
        """Called after every change of the collection, where it was made."""
        for candidate in tools:
            self.add(candidate)

    @overload
    def add(self, candidate: T) -> T: ...
    @overload
    def add(self, candidate: Callable[P, R]) -> FunctionTool[P, R]: ...
    @overload
    def add(self, candidate: object) -> Tool: ...
    def add(self, candidate: object) -> Tool:
        """Add a tool, or a function that becomes one, and return the tool. Raises DefinitionError for a bad one.

        A tool of the same name is replaced, with a warning.
        """
        tool = adapt(candidate)
        before = self.by_name.get(tool.name)
        if before is tool:
            return tool
        if before is not None:
            logger.warning("tool '%s' was registered before%s", tool.name, _replacement(before, tool))
        self.by_name[tool.name] = tool
        self._notify()
        return tool

    def remove(self, name: str) -> None:
        """Take a tool out, if it is there."""
        if self.by_name.pop(name, None) is not None:
            self._notify()

    @property
    def tools(self) -> list[Tool]:
        """The tools, in order."""
        return list(self.by_name.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None. LangChain's `lc_name` counts as a name, too."""
        try:
            return self.by_name[name]
        except KeyError:
            return next((tool for tool in self.by_name.values() if getattr(tool, "lc_name", self) == name), None)

    def _notify(self) -> None:
        for listener in self.on_change:
            listener()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.by_name)


def _replacement(before: Tool, after: Tool) -> str:
    """Where both come from: whoever reads it has to rename one of them."""
    old, new = source_of(before), source_of(after)
    if not old or not new:
        return "; the later registration replaces it"
    if old == new:
        return f"; the later registration replaces it: both are in {new}"
    return f", in {old}; the one in {new} replaces it: rename one of them"
