"""Why a file, or a tool in one, is not used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an entry, or a whole file, is not used."""

    file: Path
    index: int | None
    """The entry's place in the file, counted from 0; `None` if the file itself is meant."""
    name: str
    """The entry's name, if it has one."""
    message: str

    def __str__(self) -> str:
        if self.index is None:
            return f"{self.file}: {self.message}"
        entry = f"tool '{self.name}'" if self.name else f"entry {self.index}"
        return f"{self.file}: {entry}: {self.message}"
