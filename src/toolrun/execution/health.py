"""What an executor is busy with, for programs that watch themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Health:
    """What the executor is busy with."""

    running: int
    """Calls that are being executed."""
    queued: int
    """Calls that wait for a slot."""
    abandoned: Mapping[str, int]
    """Threads, by tool, in which a call still runs that was answered at its deadline."""
    lingering: int
    """Async calls that were cancelled at their deadline and have not ended."""
    journal: str | None = None
    """Why calls are not recorded at the moment, though they should be."""
    definitions: tuple[str, ...] = ()
    """Tools of MCP servers that are not the ones that were agreed to, and why definitions are not remembered."""
