"""The tools as MCP clients see them: names that every provider accepts, definitions in the form of MCP, and answers.

The list is rendered when it is first needed and kept until the tools change, so that a call costs the same however many
tools there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolrun.errors import DefinitionError
from toolrun.json import JSON, dumps, loads
from toolrun.logger import get_logger
from toolrun.mcp.call_result import forward_result, write_result
from toolrun.mcp.output_check import OutputSchema
from toolrun.mcp.tool_names import provider_names
from toolrun.result import ToolResult, render
from toolrun.tools.effects import hints_of
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import Tool, schema_of
from toolrun.trust.definition_text import UNLIMITED, clean_definition

logger = get_logger("toolrun.serve")

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServedTool:
    """One tool as clients see it."""

    tool_name: str
    """Its name in toolrun."""
    position: int
    definition: Definition
    legacy: Definition
    """The definition for clients of the handshake era, which has an output schema only if it describes an object."""
    header_schema: Mapping[str, Any] | None
    """The schema of the arguments, if it marks some that HTTP repeats in headers."""
    output: OutputSchema | None
    """The output schema, if the tool has one."""
    server: str | None = None
    """The MCP server that the tool belongs to, if it is passed on."""

    def answer(self, result: ToolResult, is_modern: bool) -> dict[str, Any]:
        """The `CallToolResult` for a call of this tool."""
        if self.server is not None:
            return forward_result(result, is_modern)
        has_promise = "outputSchema" in (self.definition if is_modern else self.legacy)
        answer: dict[str, Any] = write_result(result, has_promise)
        if not has_promise or self.output is None or result.error is not None:
            return answer
        if is_modern and result.shown is not None:
            answer["structuredContent"] = result.shown  # of any type
        # Clients reject an answer that does not match the schema, and would not learn what the tool did.
        problem = (
            self.output.problem(answer["structuredContent"]) if "structuredContent" in answer else "it is not an object"
        )
        if problem is None:
            return answer
        logger.warning("%s: the result does not match its output schema: %s", self.tool_name, problem)
        said = render(list(result.content) or result.shown)
        text = f"The tool succeeded, but its result does not match its output schema: {problem}\n{said}"
        return {"content": [{"type": "text", "text": text}], "isError": True}


@dataclass(frozen=True, slots=True)
class RenderedList:
    """All tools at one time."""

    tools: dict[str, ServedTool]
    """By the name for clients, in order."""
    by_tool_name: dict[str, ServedTool]
    """By the name in toolrun."""
    modern: list[Definition]
    legacy: list[Definition]

    def page(self, start: int, count: int, is_modern: bool) -> tuple[list[Definition], str | None]:
        """Definitions from a position on, and the name of the last one if more follow."""
        every = self.modern if is_modern else self.legacy
        tools = every[start : start + count]
        return tools, tools[-1]["name"] if start + count < len(every) else None


class ToolList:
    """The tools of a manager as clients see them."""

    def __init__(self, manager: ToolManager) -> None:
        self._manager = manager
        self._rendered: RenderedList | None = None
        self._changes = 0

    def clear(self) -> None:
        """The tools have changed. May be called from any thread."""
        self._changes += 1
        self._rendered = None

    def rendered(self) -> RenderedList:
        rendered, changes = self._rendered, self._changes
        if rendered is None:
            rendered = self._render()
            if changes == self._changes:
                self._rendered = rendered
        return rendered

    def find(self, name: str) -> ServedTool | None:
        """The tool that a client means. Clients may use its name in toolrun as well."""
        rendered = self._rendered or self.rendered()
        found = rendered.tools.get(name)
        if found is None and (tool := self._manager.get(name)) is not None:
            found = rendered.by_tool_name.get(tool.name)
        return found

    def _render(self) -> RenderedList:
        tools = dict(self._manager.by_name)
        names = {here: name for name, here in provider_names(tools).items()}
        served: dict[str, ServedTool] = {}
        for tool in tools.values():
            try:
                served[names[tool.name]] = _serve(tool, names[tool.name], len(served))
            except (TypeError, ValueError) as error:
                logger.warning("tool '%s' is not offered: it cannot be described as JSON (%s)", tool.name, error)
        every = served.values()
        by_tool_name = {it.tool_name: it for it in every}
        return RenderedList(served, by_tool_name, [it.definition for it in every], [it.legacy for it in every])


def _serve(tool: Tool, name: str, position: int) -> ServedTool:
    """Raises TypeError or ValueError if its description is not JSON."""
    schema, promise = _object_or_none(tool, "output_schema"), None
    if schema is not None:
        try:
            promise = OutputSchema(schema)
        except DefinitionError as error:
            logger.warning("tool '%s': its output schema cannot be used: %s", tool.name, error)
            schema = None
    server, hints = getattr(tool, "mcp_server", None), _object_or_none(tool, "annotations")
    listed = getattr(tool, "listed", None) if server is not None else None
    parts = {
        **(getattr(listed, "more", None) or {}),
        "name": name,
        "title": getattr(tool, "title", None),
        "description": tool.description if getattr(listed, "is_described", True) else None,
        "inputSchema": {"type": "object", **schema_of(tool)},
        "outputSchema": schema,
        "annotations": hints if hints or server is not None else hints_of(getattr(tool, "effects", None)),
        "icons": _list_or_none(tool, "icons"),
        "_meta": _object_or_none(tool, "meta"),
    }
    # A function has an empty object for no annotations; what another server lists is passed on as it is.
    text = dumps({key: value for key, value in parts.items() if value or (server is not None and value is not None)})
    definition: Definition = loads(text)  # a copy, so that nobody else changes it
    if server is None:  # what another server lists has been cleaned before
        definition = clean_definition(definition, UNLIMITED)
    legacy = definition
    if schema is not None and schema.get("type") != "object":
        legacy = {key: value for key, value in definition.items() if key != "outputSchema"}
    headers = definition["inputSchema"] if b'"x-mcp-header"' in text else None
    return ServedTool(tool.name, position, definition, legacy, headers, promise, server)


def _object_or_none(tool: Tool, attribute: str) -> Mapping[str, JSON] | None:
    found = getattr(tool, attribute, None)
    return found if isinstance(found, Mapping) else None


def _list_or_none(tool: Tool, attribute: str) -> list[JSON] | None:
    found = getattr(tool, attribute, None)
    return found if isinstance(found, list) else None
