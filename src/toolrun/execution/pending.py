"""What the executor may wait for before it says that there is no tool of a name."""

from __future__ import annotations

from typing import Protocol


class PendingTools(Protocol):
    """Sources whose tools are not all there yet, such as servers that are still connecting."""

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or none can be expected any more."""

    def missing(self) -> str:
        """Which sources are not there, for a model."""
