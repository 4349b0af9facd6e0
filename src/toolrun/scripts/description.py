"""What is in a script, as a worker describes it: checked wherever it comes from, and kept in a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from toolrun.json import dumps, loads
from toolrun.regular_file import read_regular_file
from toolrun.scripts.version import Version
from toolrun.worker import DIRECTORY

_FORMAT: Final = 2
"""To be raised when the files in the cache get another form."""
_MAX_BYTES: Final = 64_000_000
"""As much as a worker can say in one line."""


@dataclass(frozen=True, slots=True)
class Description:
    """The functions of a script, those that cannot be tools, and warnings."""

    functions: list[Mapping[str, Any]]
    skipped: list[Mapping[str, Any]]
    warnings: list[str]


def read_description(info: object) -> Description | None:
    """The description in what a worker, or a file, says; None if it is not one."""
    if not isinstance(info, Mapping):
        return None
    parts: list[Any] = [info.get(part) for part in ("functions", "skipped", "warnings")]
    functions, skipped, warnings = parts
    if not (_are_mappings(functions) and _are_mappings(skipped) and isinstance(warnings, list)):
        return None
    is_complete = (
        all(isinstance(it.get("name"), str) and isinstance(it.get("schema"), Mapping) for it in functions)
        and all(isinstance(it.get("description"), str | None) for it in functions)
        and all(isinstance(it.get("name"), str) and isinstance(it.get("reason"), str) for it in skipped)
        and all(isinstance(it, str) for it in warnings)
    )
    return Description(functions, skipped, warnings) if is_complete else None


def _are_mappings(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(it, Mapping) for it in items)


class DescriptionCache:
    """Files with descriptions. One that cannot be read counts as absent, and is replaced."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, version: Version) -> Description | None:
        with suppress(OSError, ValueError):
            return read_description(loads(read_regular_file(self._file(version), _MAX_BYTES)))
        return None

    def keep(self, version: Version, description: Description) -> None:
        parts = {name: getattr(description, name) for name in ("functions", "skipped", "warnings")}
        file = self._file(version)
        with suppress(OSError):  # a full disk costs time, not the tool
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}-{id(description)}.part")
            part.write_bytes(dumps(parts))
            part.replace(file)

    def _file(self, version: Version) -> Path:
        parts = (str(_FORMAT), version.sha256, version.requirements.key, _worker_key())
        key = hashlib.sha256("".join(parts).encode()).hexdigest()
        return self._directory / f"{key[:32]}.json"


@cache
def _worker_key() -> str:
    """Changes with the code that describes scripts."""
    files = sorted(Path(DIRECTORY).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
