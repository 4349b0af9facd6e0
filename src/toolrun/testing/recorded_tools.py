"""Tools that replay a recording: the same arguments give the same result, without effects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from toolrun.errors import ConfigError, ToolError
from toolrun.execution.observer import Observer
from toolrun.json import JSON
from toolrun.result import ToolResult
from toolrun.tools.context import Call
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import schema_of


@dataclass(slots=True)
class RecordedTool:
    """A tool that answers from a recording."""

    name: str
    description: str
    schema: Mapping[str, JSON]
    answers: list[tuple[Mapping[str, JSON], JSON, str | None]] = field(default_factory=list)
    """Arguments, result, error. The last match wins."""
    received: list[Mapping[str, JSON]] = field(default_factory=list)
    """The arguments of all calls so far."""
    inline: ClassVar[bool] = True  # a lookup needs no thread

    def invoke(self, arguments: Mapping[str, JSON]) -> JSON:
        self.received.append(dict(arguments))
        for expected, result, error in reversed(self.answers):
            if expected == arguments:
                if error is not None:
                    raise ToolError(error)
                return result
        known = "; ".join(json.dumps(expected) for expected, _, _ in self.answers[:5]) or "nothing"
        raise ToolError(f"There is no recording of {self.name} with {json.dumps(arguments)}. Recorded: {known}.")


class RecordedTools:
    """A collection of recorded tools: `ToolManager(list(RecordedTools.load("tools.json")))`."""

    def __init__(self) -> None:
        self.by_name: dict[str, RecordedTool] = {}

    def __iter__(self) -> Iterator[RecordedTool]:
        return iter(self.by_name.values())

    def __getitem__(self, name: str) -> RecordedTool:
        return self.by_name[name]

    def add(
        self,
        name: str,
        arguments: Mapping[str, JSON],
        result: JSON = None,
        *,
        error: str | None = None,
        description: str = "A recorded tool.",
        schema: Mapping[str, JSON] | None = None,
    ) -> RecordedTool:
        """Record a result or an error for these arguments. Without a schema, the tool accepts any arguments."""
        tool = self.by_name.setdefault(name, RecordedTool(name, description, schema or {"type": "object"}))
        tool.answers.append((dict(arguments), result, error))
        return tool

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The tools that a `Recorder` has saved. Raises ConfigError."""
        tools = cls()
        try:
            for entry in json.loads(Path(path).read_text(encoding="utf-8"))["tools"]:
                tool = RecordedTool(entry["name"], entry["description"], entry["schema"])
                tool.answers = [(it["arguments"], it.get("result"), it.get("error")) for it in entry["calls"]]
                tools.by_name[tool.name] = tool
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is not a recording of tools: {type(error).__name__}: {error}") from error
        return tools


class Recorder(Observer):
    """Records the results of an executor's tools: `ToolExecutor(manager, observers=[recorder])`."""

    def __init__(self) -> None:
        self._calls: dict[str, list[dict[str, JSON]]] = {}

    def call_finished(self, call: Call, result: ToolResult) -> None:
        outcome: dict[str, JSON] = {"result": result.result} if result.success else {"error": result.error}
        arguments = dict(call.arguments) if isinstance(call.arguments, Mapping) else {}
        self._calls.setdefault(call.name, []).append({"arguments": arguments, **outcome})

    def save(self, path: str | Path, manager: ToolManager) -> None:
        """Write the recording: all tools of the manager, with their calls."""
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "schema": schema_of(tool),
                "calls": self._calls.get(tool.name, []),
            }
            for tool in manager
        ]
        Path(path).write_text(json.dumps({"tools": tools}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
