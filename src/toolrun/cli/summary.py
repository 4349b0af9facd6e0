"""A tool as the command line shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolrun.config.model import ToolSettings
from toolrun.execution.prepared import effects_of
from toolrun.hidden_characters import reveal
from toolrun.json import JSON, Schema
from toolrun.runtime import Runtime
from toolrun.tools.effects import Effects
from toolrun.tools.protocol import Tool, schema_of, source_of

if TYPE_CHECKING:
    from toolrun.trust.pins import DefinitionChange


@dataclass(frozen=True, slots=True)
class Summary:
    """The facts about a tool."""

    name: str
    description: str
    source: str
    """Its file, relative to the project, or its MCP server; the name of its class if it has neither."""
    timeout: float
    effects: Effects | None
    """What a second call would do; None if nobody says so."""
    schema: Schema
    said_description: str
    """The description as people have to see it: what is hidden from them and not from models is shown."""
    said_schema: Schema
    """The schema as its author wrote it, with what is removed from it for models."""
    change: DefinitionChange | None = None
    """What is different about it since it was agreed to."""

    @property
    def headline(self) -> str:
        line = self.said_description.strip().partition("\n")[0]
        if self.change is None:
            return line
        return f"(changed, {'held' if self.change.is_held else 'not accepted yet'}) {line}"

    def to_dict(self) -> dict[str, JSON]:
        return {
            "name": self.name,
            "description": self.description,
            "source": self.source,
            "timeout": self.timeout,
            "effects": self.effects,
            "schema": self.schema,
            **({"changed": list(self.change.parts), "held": self.change.is_held} if self.change is not None else {}),
        }


def summarise(runtime: Runtime, tool: Tool) -> Summary:
    own = getattr(tool, "settings", None)  # a tool of an MCP server knows its own
    settings = own if isinstance(own, ToolSettings) else runtime.config.tool.get(tool.name)
    said = getattr(getattr(tool, "listed", None), "as_said", None) or tool
    timeout = (settings and settings.timeout) or getattr(tool, "timeout", None) or runtime.config.timeout
    return Summary(
        name=tool.name,
        description=tool.description,
        source=_source(tool, runtime.config.root),
        timeout=timeout,
        effects=effects_of(tool, settings or ToolSettings()),
        schema=dict(schema_of(tool)),
        said_description=reveal(said.description),
        said_schema=dict(schema_of(said)),
        change=runtime.change_of(tool),
    )


def relative(path: Path, root: Path) -> str:
    """The path relative to the project, if it is below it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _source(tool: Tool, root: Path) -> str:
    source = source_of(tool) or type(tool).__name__
    return relative(Path(source), root) if source.startswith(str(root)) else source
