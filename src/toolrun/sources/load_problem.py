"""Why a file, or a tool in it, was not loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """Why a file, or an entry of it, was not loaded."""

    file: Path
    index: int | None
    """The index of the entry in the file; `None` if the problem is the file itself."""
    name: str
    """The entry's name, if it has one."""
    message: str

    def __str__(self) -> str:
        if self.index is None:
            return f"{self.file}: {self.message}"
        entry = f"tool '{self.name}'" if self.name else f"entry {self.index}"
        return f"{self.file}: {entry}: {self.message}"
