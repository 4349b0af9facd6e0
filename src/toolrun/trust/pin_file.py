"""The file with the pinned definitions of a project, `.toolrun/definitions.json`.

Several processes may use it at once: each change is made to what is in the file at that moment, under a lock, and
replaces the file as a whole, so that a reader needs no lock. Nothing is written if nothing changes. A file that cannot
be read as what it is gets another name, and a new one begins: what it said is not lost.

Blocking. Knows nothing of servers and sessions.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

from toolrun.errors import PinError
from toolrun.journal.project_folder import make_private_folder
from toolrun.json import JSON, dumps, loads
from toolrun.logger import get_logger
from toolrun.regular_file import read_regular_file
from toolrun.trust.pinned_definition import PinnedDefinition

logger = get_logger("toolrun.trust")

_VERSION: Final = 1
_MAX_BYTES: Final = 200_000_000
_LOCK_WAIT: Final = 5.0
"""Seconds that a process waits for another one, which holds the lock for milliseconds."""
_LOCK_PAUSE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Pin:
    """What is remembered of one tool of a server."""

    definition: PinnedDefinition
    """What was agreed to."""
    at: str
    """When, in ISO 8601."""
    by: str = ""
    """Who did; empty for the first use."""
    name: str = ""
    """The name without a prefix that belongs to the tool, once it has been in use."""
    changed: PinnedDefinition | None = None
    """What the tool says of itself by now, if that is something else."""


Pinned: TypeAlias = dict[str, dict[str, Pin]]
"""By server, then by the name that the server gives the tool."""


class PinFile:
    """The file of one project."""

    def __init__(self, root: Path) -> None:
        self.path = root / ".toolrun" / "definitions.json"
        self._seen: tuple[int, int, int] | None = None
        self._pinned: Pinned = {}

    def read(self) -> Pinned:
        """What is in the file; a file that has not changed is not read again. Raises PinError.

        The result is the reader's own, though not the pins in it, which do not change.
        """
        try:
            identity = _identity(self.path)
            if identity is None:
                self._seen, self._pinned = None, {}
            elif identity != self._seen:
                self._pinned = self._parsed(read_regular_file(self.path, _MAX_BYTES))
                self._seen = identity
        except OSError as error:
            raise PinError(f"{self.path} cannot be read: {error.strerror}") from error
        return {server: dict(tools) for server, tools in self._pinned.items()}

    def has_changed(self) -> bool:
        """Whether somebody has written since it was last read."""
        with suppress(OSError):
            return _identity(self.path) != self._seen
        return False

    def change(self, work: Callable[[Pinned], None]) -> Pinned:
        """Have `work` change the pins, and write them if it does. Returns what is in the file then. Raises PinError."""
        try:
            make_private_folder(self.path.parent)
            with self._locked():
                pinned = self._read_or_move()
                before = _written(pinned)
                work(pinned)
                after = _written(pinned)
                if after != before:
                    self._replace(after)
                    self._seen, self._pinned = _identity(self.path), pinned
        except OSError as error:
            raise PinError(f"{self.path} cannot be written: {error.strerror}") from error
        return {server: dict(tools) for server, tools in pinned.items()}

    @contextmanager
    def _locked(self) -> Any:
        descriptor = os.open(self.path.with_name("definitions.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = monotonic() + _LOCK_WAIT
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if monotonic() > end:
                        raise PinError(f"{self.path} is locked by another process") from None
                    sleep(_LOCK_PAUSE)
            yield
        finally:
            os.close(descriptor)

    def _read_or_move(self) -> Pinned:
        """What is in the file. One that is damaged is moved aside, under the lock, so that only one process does so."""
        try:
            return self.read()
        except _DamagedError as error:
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.damaged{number}")).exists():
                number += 1
            self.path.rename(aside)
            logger.warning(
                "%s. It is now %s, and the definitions of all tools are pinned anew when their servers list them",
                error,
                aside.name,
                extra={"pins": True},
            )
            return self.read()

    def _parsed(self, text: bytes) -> Pinned:
        try:
            document = loads(text)
            version = document["version"]
            if not isinstance(version, int) or version > _VERSION:
                raise PinError(f"{self.path} was written by a newer toolrun. Update toolrun.")
            return {
                server: {tool: _pin(entry) for tool, entry in tools.items()}
                for server, tools in document["servers"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _DamagedError(f"{self.path} is damaged ({type(error).__name__}: {error!s:.80})") from error

    def _replace(self, text: bytes) -> None:
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123  it is open already
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)


class _DamagedError(PinError):
    """The file is not what toolrun has written."""


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _written(pinned: Pinned) -> bytes:
    servers = {
        server: {tool: _entry(pin) for tool, pin in sorted(tools.items())}
        for server, tools in sorted(pinned.items())
        if tools
    }
    return dumps({"version": _VERSION, "servers": servers}) + b"\n"


def _entry(pin: Pin) -> dict[str, JSON]:
    entry: dict[str, JSON] = {"hash": pin.definition.hash, "at": pin.at}
    entry |= {key: value for key, value in (("by", pin.by), ("name", pin.name)) if value}
    entry["definition"] = dict(pin.definition.said)
    if pin.changed is not None:
        entry["changed"] = {"hash": pin.changed.hash, "definition": dict(pin.changed.said)}
    return entry


def _pin(entry: Mapping[str, Any]) -> Pin:
    changed = entry.get("changed")
    return Pin(
        definition=_definition(entry),
        at=_text(entry["at"]),
        by=_text(entry.get("by", "")),
        name=_text(entry.get("name", "")),
        changed=None if changed is None else _definition(changed),
    )


def _definition(entry: Mapping[str, Any]) -> PinnedDefinition:
    said = entry["definition"]
    if not isinstance(said, dict):
        raise TypeError("a definition is not an object")
    return PinnedDefinition(_text(entry["hash"]), said)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
