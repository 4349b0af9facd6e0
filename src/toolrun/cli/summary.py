"""A tool as the command line shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolrun.config.model import ToolSettings
from toolrun.json import JSON, Schema
from toolrun.runtime import Runtime
from toolrun.tools.protocol import Tool, schema_of


@dataclass(frozen=True, slots=True)
class Summary:
    """The facts about a tool."""

    name: str
    description: str
    source: str
    """Its file, relative to the project, or its MCP server; the name of its class if it has neither."""
    timeout: float
    schema: Schema

    @property
    def headline(self) -> str:
        return self.description.strip().partition("\n")[0]

    def to_dict(self) -> dict[str, JSON]:
        return {
            "name": self.name,
            "description": self.description,
            "source": self.source,
            "timeout": self.timeout,
            "schema": self.schema,
        }


def summarise(runtime: Runtime, tool: Tool) -> Summary:
    own = getattr(tool, "settings", None)  # a tool of an MCP server knows its own
    settings = own if isinstance(own, ToolSettings) else runtime.config.tool.get(tool.name)
    timeout = (settings and settings.timeout) or getattr(tool, "timeout", None) or runtime.config.timeout
    return Summary(
        name=tool.name,
        description=tool.description,
        source=_source(tool, runtime.config.root),
        timeout=timeout,
        schema=dict(schema_of(tool)),
    )


def relative(path: Path, root: Path) -> str:
    """The path relative to the project, if it is below it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _source(tool: Tool, root: Path) -> str:
    source = getattr(tool, "source", None)
    code = getattr(getattr(tool, "__wrapped__", None), "__code__", None)
    if source is None and code is not None:
        source = Path(code.co_filename)
    if isinstance(source, Path):
        return relative(source, root)
    return source if isinstance(source, str) else type(tool).__name__
