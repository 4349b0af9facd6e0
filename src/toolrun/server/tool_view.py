"""A tool as the API shows it: where it comes from, what it does, and whether it can be called."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from typing_extensions import TypedDict  # pydantic, which needs it, brings it

from toolrun.config.model import ToolSettings
from toolrun.execution.prepared import effects_of
from toolrun.hidden_characters import reveal
from toolrun.runtime import Runtime
from toolrun.scripts.script_tool import ScriptTool
from toolrun.sources.catalog import DeclaredTool
from toolrun.tools.function import FunctionTool
from toolrun.tools.protocol import Tool, schema_of, source_of
from toolrun.trust.rule import rules_of

_NO_SETTINGS: Final = ToolSettings()


class SourceView(TypedDict):
    """Where a tool comes from."""

    kind: str
    """`function`, `script`, `mcp`, `catalog`, `builtin` or `object`."""
    name: str


class ToolView(TypedDict):
    """A tool in a list."""

    name: str
    description: str
    source: SourceView
    effects: str | None
    """`none`, `idempotent`, `keyed` or `once`: what a second call would do; null if nobody says so."""
    approval: str
    """`allow`, `ask` or `deny`: what holds for a call without arguments, made by a program."""
    state: str
    """`ready`; `held` until somebody accepts its change; `unavailable` while its server is not connected."""
    calls: int
    errors: int
    p50_ms: float | None
    """Of its last calls, if it had any lately."""


class ToolStats(TypedDict):
    """What is known of a tool's calls at a glance."""

    calls: int
    errors: int
    p50_ms: float | None


NO_STATS: Final[ToolStats] = {"calls": 0, "errors": 0, "p50_ms": None}


def settings_of(runtime: Runtime, tool: Tool) -> ToolSettings:
    """Those of its name, unless its source knows better, as the tools of MCP servers do."""
    own = getattr(tool, "settings", None)
    return own if isinstance(own, ToolSettings) else runtime.config.tool.get(tool.name, _NO_SETTINGS)


def view_tool(runtime: Runtime, tool: Tool, stats: ToolStats) -> ToolView:
    settings = settings_of(runtime, tool)
    said = getattr(getattr(tool, "listed", None), "as_said", None) or tool
    effects = effects_of(tool, settings)
    return {
        "name": tool.name,
        "description": reveal(said.description),
        "source": source_view(runtime, tool),
        "effects": None if effects is None else effects.value,
        "approval": rules_of(tool, settings, runtime.config.approval).ruling({}, by_model=False).action.value,
        "state": _state(runtime, tool),
        **stats,
    }


def source_view(runtime: Runtime, tool: Tool) -> SourceView:
    server = getattr(tool, "mcp_server", None)
    if isinstance(server, str):
        return {"kind": "mcp", "name": server}
    source = source_of(tool)
    root = runtime.config.root
    path = Path(source) if source else None
    if path is not None and path.is_absolute() and path.is_relative_to(root):
        source = str(path.relative_to(root))
    return {"kind": _kind(tool), "name": source or type(tool).__name__}


def _kind(tool: Tool) -> str:
    if isinstance(tool, ScriptTool):
        return "script"
    if isinstance(tool, DeclaredTool):
        return "builtin" if tool.kind == "builtin" else "catalog"
    return "function" if isinstance(tool, FunctionTool) else "object"


def _state(runtime: Runtime, tool: Tool) -> str:
    if runtime.held.get(tool.name) is tool:
        return "held"
    supervisor: Any = getattr(tool, "supervisor", None)
    return "ready" if supervisor is None or supervisor.session is not None else "unavailable"


def said_schema(tool: Tool) -> dict[str, Any]:
    """The schema as its author wrote it, with what is removed from it for models."""
    said = getattr(getattr(tool, "listed", None), "as_said", None) or tool
    return dict(schema_of(said))
