"""What is in a script, as a worker describes it: checked wherever it comes from, and kept in a file.

A file is believed only with a signature of ours: a tool that can write to the cache could otherwise tell models what
another tool is for. The key is in the user's state directory, which no sandboxed worker sees. A tool that runs without
a sandbox, as the same user, can read the key like anything else of the user's.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from toolrun.json import dumps, loads
from toolrun.regular_file import read_regular_file
from toolrun.scripts.script_version import Version
from toolrun.worker import DIRECTORY

_FORMAT: Final = 3
"""To be raised when the files in the cache get another form."""
_MAX_BYTES: Final = 64_000_000
"""As much as a worker can say in one line."""
_KEY_BYTES: Final = 32


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

    def __init__(self, directory: Path, key_file: Path | None = None) -> None:
        """`key_file` has the key of the signatures, and is made if it is not there."""
        self._directory = directory
        self._key_file = key_file or state_directory() / "description.key"

    def find(self, version: Version) -> Description | None:
        with suppress(OSError, ValueError):
            file = self._file(version)
            signature, _, text = read_regular_file(file, _MAX_BYTES).partition(b"\n")
            if hmac.compare_digest(signature, self._signature(file, text)):
                return read_description(loads(text))
        return None

    def keep(self, version: Version, description: Description) -> None:
        parts = {name: getattr(description, name) for name in ("functions", "skipped", "warnings")}
        file = self._file(version)
        with suppress(OSError):  # a full disk costs time, not the tool
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}-{id(description)}.part")
            text = dumps(parts)
            part.write_bytes(self._signature(file, text) + b"\n" + text)
            part.replace(file)

    def _signature(self, file: Path, text: bytes) -> bytes:
        """Of this text in this file: a description is not that of another script."""
        return hmac.digest(_read_key(self._key_file), file.name.encode() + b"\n" + text, "sha256").hex().encode()

    def _file(self, version: Version) -> Path:
        parts = (str(_FORMAT), version.sha256, version.requirements.key, _worker_key())
        key = hashlib.sha256("".join(parts).encode()).hexdigest()
        return self._directory / f"{key[:32]}.json"


def state_directory() -> Path:
    """Where the user's programs keep what is neither configuration nor cache."""
    named = os.environ.get("XDG_STATE_HOME", "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state") / "toolrun"


def _read_key(file: Path) -> bytes:
    """The key of this user. Where none can be kept, one that this process forgets: what others signed is made anew."""
    try:
        if not file.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = file.with_suffix(f".{secrets.token_hex(8)}")
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_bytes(secrets.token_bytes(_KEY_BYTES))
            with suppress(FileExistsError):  # another process was first: its key counts
                os.link(draft, file)
            draft.unlink()
        key = read_regular_file(file, _KEY_BYTES)
        if len(key) == _KEY_BYTES and not file.stat().st_mode & 0o077:
            return key
    except (OSError, RuntimeError):  # no home directory
        pass
    return _passing_key()


@cache
def _passing_key() -> bytes:
    return secrets.token_bytes(_KEY_BYTES)


@cache
def _worker_key() -> str:
    """Changes with the code that describes scripts."""
    files = sorted(Path(DIRECTORY).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
