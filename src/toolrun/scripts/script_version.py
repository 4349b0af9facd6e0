"""One content of a script file, and what its header says: read as a whole, so that a later edit does not change it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from toolrun.config.model import Config, Permissions
from toolrun.config.value_type import EFFECTS, PERMISSIONS, SECONDS, VALUE_TYPES, count, one_of
from toolrun.errors import ConfigError
from toolrun.regular_file import MAX_PYTHON_BYTES, read_regular_file
from toolrun.scripts.environment import Requirements, read_requirements
from toolrun.scripts.pep723 import find_fault
from toolrun.text import suggestion

Stamp: TypeAlias = tuple[int, int, int]
"""What changes when a file is written: its time, its size, its number."""

_DECLARED: Final = {
    "timeout": SECONDS,
    "concurrency": count(1),
    "memory_mb": count(1),
    "secrets": VALUE_TYPES["tuple[str, ...]"],
    "effects": EFFECTS,
    "verify": VALUE_TYPES["str"],
    "sandbox": one_of("standard", "strict"),
    "permissions": PERMISSIONS,
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a script says of itself, in `[tool.toolrun]` of its metadata."""

    timeout: float | None = None
    concurrency: int = 1
    memory_mb: int | None = None
    secrets: tuple[str, ...] = ()
    effects: str | None = None
    verify: str | None = None
    """Which of its functions finds out whether a call has acted. It is no tool."""
    sandbox: str | None = None
    """It may ask for a stricter sandbox than the user's."""
    permissions: Permissions = field(default_factory=Permissions)
    """What it asks for; toolrun.toml grants it."""


@dataclass(frozen=True, slots=True)
class Version:
    """One content of a file."""

    content: bytes = field(repr=False)
    sha256: str
    requirements: Requirements
    declared: Declared


def read_stamped(path: Path, config: Config) -> tuple[Stamp, Version]:
    """Raises ConfigError. The stamp is the older of the two: a later edit shows."""
    try:
        stamp = stamp_of(str(path))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    return stamp, read_version(path, config)


def stamp_of(file: str) -> Stamp:
    """Raises OSError."""
    status = os.stat(file)  # noqa: PTH116  once for each call, and pathlib takes twice as long
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_version(path: Path, config: Config) -> Version:
    """The file as it is now. Raises ConfigError if it cannot be read, or its metadata cannot be used."""
    try:
        content = read_regular_file(path, MAX_PYTHON_BYTES)
        lock_file = path.with_name(f"{path.name}.lock")
        lock = read_regular_file(lock_file, MAX_PYTHON_BYTES) if lock_file.exists() else None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    return make_version(content, lock, config)


def make_version(content: bytes, lock: bytes | None, config: Config) -> Version:
    """The version that has this content, with that of its lock file. Raises ConfigError."""
    try:
        source = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot be read: {error}") from error
    requirements = read_requirements(source, lock)
    if requirements is None:
        raise ConfigError(f"has a header that is not valid (PEP 723), so it is not run: {find_fault(source)}")
    tools = requirements.metadata.get("tool")
    table = tools.get("toolrun", {}) if isinstance(tools, Mapping) else {}
    return Version(content, hashlib.sha256(content).hexdigest(), requirements, _capped(_declared(table), config))


def _declared(table: object) -> Declared:
    if not isinstance(table, Mapping):
        raise ConfigError("[tool.toolrun] in its header must be a table")
    values: dict[str, Any] = {}
    for key, value in table.items():
        value_type = _DECLARED.get(key)
        if value_type is None:
            raise ConfigError(f"unknown key '{key}' in [tool.toolrun] of its header; {suggestion(key, _DECLARED)}")
        if not value_type.accepts(value):
            wrong = value_type.explain(value).removesuffix(",")
            raise ConfigError(
                f"'{key}' in [tool.toolrun] of its header must be {value_type.words}{f', got {wrong}' if wrong else ''}"
            )
        values[key] = value_type.convert(value)
    return Declared(**values)


def _capped(declared: Declared, config: Config) -> Declared:
    workers = config.workers
    memory = [it for it in (declared.memory_mb, workers.max_memory_mb) if it is not None]
    return replace(
        declared,
        timeout=None if declared.timeout is None else min(declared.timeout, workers.max_timeout),
        concurrency=min(declared.concurrency, workers.max_concurrency),
        memory_mb=min(memory, default=None),
    )
