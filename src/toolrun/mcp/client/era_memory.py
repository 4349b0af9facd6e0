"""Which era of the protocol each server spoke last, kept in a file for the next program that starts it.

A server of the older era that is asked for the newer one may log a page of complaints, and one of the newer era about
the handshake of the older one. So each is asked for both once. What is remembered holds for the same command or URL, as
long as the server gives the same name and version and toolrun has the same version. It is only a hint: if it turns out
to be wrong, the server is asked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolrun.config.model import ServerSettings
from toolrun.json import dumps, loads
from toolrun.version import __version__

_MAX_ENTRIES: Final = 500
_MAX_BYTES: Final = 1_000_000
_WRITING: Final = threading.Lock()
"""Several servers are connected with at once, each from its own thread: none may overwrite what another has written."""


@dataclass(frozen=True, slots=True)
class RememberedServer:
    version: str
    """Of the protocol."""
    info: str
    """What the server called itself."""


class EraMemory:
    """The memory of one server. Blocking, and never raises: without its file nothing is remembered."""

    def __init__(self, directory: Path, root: Path, settings: ServerSettings) -> None:
        self._path = directory / "mcp-eras.json"
        target = [str(root), settings.command, *settings.args, settings.cwd, settings.url, settings.transport]
        self._key = hashlib.sha256(dumps(target)).hexdigest()[:32]

    def recall(self) -> RememberedServer | None:
        entry = self._read().get(self._key)
        match entry:
            case {"toolrun": str() as toolrun, "version": str() as version, "info": str() as info}:
                return RememberedServer(version, info) if toolrun == __version__ else None
        return None

    def remember(self, found: RememberedServer) -> None:
        with _WRITING:
            if self.recall() != found:
                self._write({"toolrun": __version__, "version": found.version, "info": found.info})

    def forget(self) -> None:
        with _WRITING:
            if self._key in self._read():
                self._write(None)

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            if self._path.is_file() and self._path.stat().st_size <= _MAX_BYTES:
                data = loads(self._path.read_bytes())
                return data if isinstance(data, dict) else {}
        return {}

    def _write(self, entry: dict[str, str] | None) -> None:
        entries = {key: value for key, value in self._read().items() if key != self._key}
        if entry is not None:
            entries[self._key] = entry
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(dumps(dict(list(entries.items())[-_MAX_ENTRIES:])))
                part.replace(self._path)  # two programs at once: one of them is asked again some day
            finally:
                part.unlink(missing_ok=True)
