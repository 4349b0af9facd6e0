"""What the system keeps from everybody but root: files in /etc such as /etc/shadow.

Root owns them, and can read them without any capability. So they are hidden from sandboxed processes of root like the
files of toolrun. To look at all of /etc takes 2 ms, so what was found is remembered. A file that is made or moved
changes its directory, which is noticed at the next start; a file that is there and loses rights is noticed within a
minute.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_SYSTEM_SETTINGS: Final = "/etc"
_LOOK_AGAIN: Final = 60.0
"""Seconds after which the rights of all files are looked at again."""
_TICK: Final = 100_000_000
"""Nanoseconds, more than the kernel's clock takes for a step: a change may have the same time as the one before it."""


@dataclass(slots=True)
class _Search:
    """What a look at a directory found, and by what a later change is noticed."""

    begun: float = field(default_factory=time.monotonic)
    files: list[Path] = field(default_factory=list)
    changed: dict[str, int] = field(default_factory=dict)
    """When the directories were last changed; -1 if that was just before the look."""

    def look(self, directory: str) -> None:
        try:
            changed = os.stat(directory).st_mtime_ns  # noqa: PTH116  quick
            entries = list(os.scandir(directory))
        except OSError:
            return
        self.changed[directory] = changed if changed < time.time_ns() - _TICK else -1
        for entry in entries:
            if entry.is_symlink():  # half of /etc, and to know that takes no look at the file
                continue
            with suppress(FileNotFoundError):
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & 0o005 == 0o005:
                    self.look(entry.path)
                elif stat.S_ISDIR(mode) or not mode & 0o004:
                    self.files.append(Path(entry.path))

    def is_current(self) -> bool:
        try:
            # As above, quick.
            is_same = all(os.stat(path).st_mtime_ns == changed for path, changed in self.changed.items())  # noqa: PTH116
        except OSError:
            return False
        return is_same and time.monotonic() - self.begun < _LOOK_AGAIN


_known: dict[str, _Search] = {}


def private_files(directory: str = _SYSTEM_SETTINGS) -> tuple[Path, ...]:
    """What root can read there and others cannot; nothing for others, whom the system itself refuses it."""
    if os.getuid() != 0:
        return ()
    known = _known.get(directory)
    if known is None or not known.is_current():
        known = _known[directory] = _Search()
        known.look(directory)
    return tuple(known.files)
