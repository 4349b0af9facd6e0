"""Tools that have what providers are known to stumble over, as the three kinds of objects that tools are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field

from toolrun import tool


class Point(BaseModel):
    """Where something is."""

    x: int = Field(description="Column.", ge=0)
    y: int = Field(default=0, description="Row.")


@tool(name="lights.set")
def set_light(
    room: Literal["kitchen", "office"],
    brightness: Annotated[int, Field(ge=0, le=100)] = 100,
    colour: str | None = None,
) -> str:
    """Switch the light of a room on.

    Args:
        room: Where the lamp is.
        brightness: In percent.
        colour: A name such as red.
    """
    return f"{room} {brightness} {colour}"


@tool
def draw(start: Point, path: list[Point], labels: dict[str, str] | None = None) -> str:
    """Draw a line.

    Args:
        start: Where it begins.
        path: Where it goes.
        labels: What is written beside it.
    """
    return f"{start} {path} {labels}"


@tool
def look() -> str:
    """Look around."""
    return "a room"


@dataclass
class ServerTool:
    """A tool of an MCP server, as an adapter makes it."""

    name: str
    description: str
    schema: dict[str, Any]
    lc_name: str | None = None

    async def ainvoke(self, arguments: dict[str, Any]) -> str:
        return f"{self.name} {arguments}"


def _search(query: str, limit: int | Literal["all"] = 10) -> str:
    return f"{query} {limit}"


SEARCH = StructuredTool.from_function(_search, name="search", description="Search the archive.")
"""LangChain's own, with its schema from pydantic."""

SHAPE = ServerTool(
    "shape",
    "Make a shape.",
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "oneOf": [{"$ref": "#/definitions/circle"}, {"$ref": "#/definitions/box"}],
        "definitions": {
            "circle": {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["kind", "radius"],
            },
            "box": {
                "type": "object",
                "properties": {
                    "kind": {"const": "box"},
                    "size": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]},
                },
                "required": ["kind", "size"],
            },
        },
    },
    lc_name="drawing__shape",
)

QUERY = ServerTool(
    "list_items",
    "List what is there.",
    {
        "type": "object",
        "properties": {"$top": {"type": "integer"}, "filter[name]": {"type": "string"}, "tags": {"type": "array"}},
        "required": ["filter[name]"],
        "additionalProperties": False,
    },
)

TOOLS: list[Any] = [set_light, draw, look, SEARCH, SHAPE, QUERY]
