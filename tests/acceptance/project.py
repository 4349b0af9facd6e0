"""A project as a user has it: a directory with a `toolrun.toml` and files of tools, loaded by the real `Runtime`."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from textwrap import dedent
from typing import Any

from toolrun import Runtime, ToolResult


class Project:
    """Files below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("toolrun.toml", "")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")

    def declare(self, *tools: dict[str, Any]) -> None:
        """Write the catalog of the project."""
        self.write("tools/catalog.json", json.dumps(tools))

    def open(self) -> AbstractAsyncContextManager[Runtime]:
        return Runtime.open(self.root / "toolrun.toml")


def declaration(name: str, implementation: dict[str, Any], **properties: dict[str, Any]) -> dict[str, Any]:
    """An entry of a catalog; all its parameters are required."""
    return {
        "name": name,
        "description": f"The tool {name}.",
        "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        "implementation": implementation,
    }


def envelope(result: ToolResult) -> dict[str, Any]:
    """The envelope of an answer without its time, which is never the same twice but always there."""
    found: dict[str, Any] = result.to_dict()
    milliseconds = found.pop("execution_time_ms")
    assert isinstance(milliseconds, float)
    assert milliseconds >= 0
    return found
