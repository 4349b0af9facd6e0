"""What MCP clients see of the tools: names that every provider takes, definitions in the form of the protocol, answers.

Made when it is first asked for and kept until the tools change, so that a call does not cost more with every tool.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolrun.errors import DefinitionError
from toolrun.json import JSON, dumps, loads
from toolrun.mcp.call_result import write_result
from toolrun.mcp.output_check import OutputSchema
from toolrun.mcp.tool_names import provider_names
from toolrun.result import ToolResult
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import schema_of

logger = logging.getLogger("toolrun.serve")

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool as clients see it."""

    tool_name: str
    """Its name here."""
    position: int
    definition: Definition
    legacy: Definition
    """The definition for clients of the handshake era, where a result is described only if it is an object."""
    header_schema: Mapping[str, Any] | None
    """The schema of the arguments, if some of them are to be repeated as HTTP headers."""
    output: OutputSchema | None
    """What the definition promises of a result."""

    def answer(self, result: ToolResult, is_modern: bool) -> dict[str, Any]:
        """The `CallToolResult` for a call of this tool."""
        has_promise = "outputSchema" in (self.definition if is_modern else self.legacy)
        answer: dict[str, Any] = write_result(result, has_promise)
        if not has_promise or self.output is None or result.error is not None:
            return answer
        if is_modern and result.result is not None:
            answer["structuredContent"] = result.result  # of any type
        # Clients refuse an answer that is not what its schema says, and would know nothing of what the tool did.
        problem = (
            self.output.problem(answer["structuredContent"]) if "structuredContent" in answer else "it is no object"
        )
        if problem is None:
            return answer
        logger.warning("%s: the result is not what its output schema says: %s", self.tool_name, problem)
        text = f"The tool succeeded, but its result is not what its output schema says: {problem}\n{result.text}"
        return {"content": [{"type": "text", "text": text}], "isError": True}


@dataclass(frozen=True, slots=True)
class Rendering:
    """All tools at one time."""

    offers: dict[str, Offer]
    """By the name for clients, in order."""
    by_tool: dict[str, Offer]
    """By the name here."""
    modern: list[Definition]
    legacy: list[Definition]

    def page(self, start: int, count: int, is_modern: bool) -> tuple[list[Definition], str | None]:
        """Definitions from a position on, and the name of the last one if there are more."""
        every = self.modern if is_modern else self.legacy
        tools = every[start : start + count]
        return tools, tools[-1]["name"] if start + count < len(every) else None


class Catalog:
    """The tools of a manager as clients see them."""

    def __init__(self, manager: ToolManager) -> None:
        self._manager = manager
        self._rendering: Rendering | None = None
        self._changes = 0

    def clear(self) -> None:
        """The tools have changed. May be called from any thread."""
        self._changes += 1
        self._rendering = None

    def rendering(self) -> Rendering:
        rendering, changes = self._rendering, self._changes
        if rendering is None:
            rendering = self._render()
            if changes == self._changes:
                self._rendering = rendering
        return rendering

    def find(self, name: str) -> Offer | None:
        """The tool that a client means; those who know the name that it has here may use that."""
        rendering = self.rendering()
        found = rendering.offers.get(name)
        if found is None and (tool := self._manager.get(name)) is not None:
            found = rendering.by_tool.get(tool.name)
        return found

    def _render(self) -> Rendering:
        tools = dict(self._manager.by_name)
        names = {here: name for name, here in provider_names(tools).items()}
        offers: dict[str, Offer] = {}
        for tool in tools.values():
            try:
                offer = _offer(tool, names[tool.name], len(offers))
            except (TypeError, ValueError) as error:
                logger.warning("tool '%s' is not offered: it cannot be described as JSON (%s)", tool.name, error)
                continue
            offers[names[tool.name]] = offer
        every = offers.values()
        by_tool = {offer.tool_name: offer for offer in every}
        return Rendering(offers, by_tool, [offer.definition for offer in every], [offer.legacy for offer in every])


def _offer(tool: Any, name: str, position: int) -> Offer:
    """Raises TypeError or ValueError for what is not JSON."""
    schema, promise = _object_or_none(tool, "output_schema"), None
    if schema is not None:
        try:
            promise = OutputSchema(schema)
        except DefinitionError as error:
            logger.warning("tool '%s': its output schema cannot be used: %s", tool.name, error)
            schema = None
    parts = {
        "name": name,
        "title": getattr(tool, "title", None),
        "description": tool.description,
        "inputSchema": {"type": "object", **schema_of(tool)},
        "outputSchema": schema,
        "annotations": _object_or_none(tool, "annotations"),
    }
    text = dumps({key: value for key, value in parts.items() if value})
    definition: Definition = loads(text)  # nobody else has it, so nobody else changes it
    legacy = definition
    if schema is not None and schema.get("type") != "object":
        legacy = {key: value for key, value in definition.items() if key != "outputSchema"}
    headers = definition["inputSchema"] if b'"x-mcp-header"' in text else None
    return Offer(tool.name, position, definition, legacy, headers, promise)


def _object_or_none(tool: Any, attribute: str) -> Mapping[str, JSON] | None:
    found = getattr(tool, attribute, None)
    return found if isinstance(found, Mapping) and found else None
