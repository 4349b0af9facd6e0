"""Tools of this process: good ones, slow ones, hostile ones."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from toolrun import Content, ToolContext, tool

RUNS = Path(__file__).with_name("runs.txt")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Room(BaseModel):
    kind: Literal["room"]
    room: str = Field(description="The name of a room")


class Member(BaseModel):
    id: int
    weight: float = 1.0


class Group(BaseModel):
    kind: Literal["group"]
    members: list[Member]


@tool(effects="none")
def dim(room: str, level: Annotated[int, Field(ge=0, le=100)] = 50) -> dict:
    """Say how bright a room would be."""
    return {"room": room, "level": level}


@tool(effects="none")
def plan(target: Room | Group, days: list[Literal["mo", "tu", "we"]] | None = None) -> str:
    """Plan something for a room or a group."""
    return f"{type(target).__name__} {days}"


@tool(effects="none")
async def good_night(rooms: list[str], context: ToolContext) -> str:
    """Say how dark the rooms would be at night, one after the other."""
    for number, room in enumerate(rooms, 1):
        await asyncio.sleep(0.02 * number)
        await context.call_tool("dim", {"room": room, "level": 5})
        context.progress(number, len(rooms), room)
        context.logger.info("%s would be at 5 %%", room)
    return f"Good night: {', '.join(rooms)}."


@tool(effects="none")
async def hang(context: ToolContext) -> str:
    """Never answers."""
    context.progress(1, 3, "sleeping")
    await asyncio.Event().wait()
    return "never"


@tool(effects="none")
def hostile() -> str:
    """Returns markup, and what a terminal obeys."""
    return (
        '<script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">\x1b[31mred\x1b]0;title\x07 \u202eback'
    )


@tool(effects="none")
def flood() -> str:
    """Returns ten megabytes."""
    return "<b>x</b> " * 1_100_000


@tool(effects="none")
def picture() -> Content:
    """Returns an image."""
    return Content([{"type": "image", "data": PIXEL, "mimeType": "image/png"}])


@tool(effects="once")
def remove(path: str) -> str:
    """Remove a file for good."""
    with RUNS.open("a") as file:
        print(path, file=file)
    return f"removed {path}"


@tool(effects="once", approval="ask")
def wire(account: int) -> str:
    """Pay."""
    return f"paid {account}"


@tool(effects="once")
async def vague(name: str, context: ToolContext) -> str:
    """Acts, and is lost on the way."""
    context.logger.warning("asking for <b>%s</b>", name)
    raise RuntimeError(f"{name}: the line went dead")
