"""Tools of a small household. Each is a function; its type hints and its docstring are what a model gets to see."""

import time
from dataclasses import dataclass
from typing import Literal

from toolrun import tool


@dataclass
class Light:
    """The state of a lamp."""

    room: str
    brightness: int


@tool
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool
def set_light(room: Literal["kitchen", "office", "bedroom"], brightness: int = 100) -> Light:
    """Switch the light of a room on, or change its brightness.

    Args:
        room: Where the lamp is.
        brightness: In percent; 0 is off.
    """
    return Light(room, max(0, min(brightness, 100)))


@tool
def water_plants(litres: float) -> str:
    """Water the plants on the balcony.

    Args:
        litres: How much water.
    """
    raise RuntimeError(f"the tank is empty, {litres:g} litres are missing")


@tool
def wait_for_parcel() -> str:
    """Wait until the parcel is at the door."""
    # It never comes. `[tool.wait_for_parcel]` in toolrun.toml says how long a call may take.
    time.sleep(60)
    return "It is there."
