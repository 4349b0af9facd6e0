"""The environments of scripts that are kept in a cache: which there are, which are in use, and how they are deleted.

A program holds a shared lock on the file `used` of each environment that it uses, until it closes. The system lets go
of the lock when the program dies. So an environment that can be locked exclusively is in use by nobody.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolrun.regular_file import read_regular_file
from toolrun.scripts.pep723 import read_metadata

USED: Final = "used"
_MAX_SCRIPT: Final = 1_000_000
_FLAGS: Final = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class KeptEnvironment:
    """One environment."""

    home: Path
    dependencies: tuple[str, ...]
    size: int
    """Bytes. uv may share many of them with its own cache."""
    last_used: float
    """When a program began to use it, in seconds since 1970."""
    is_used: bool
    """Whether a program that runs uses it."""


class HeldEnvironments:
    """The environments that a program uses: nobody deletes them until `close`."""

    def __init__(self) -> None:
        self._descriptors: dict[Path, int] = {}
        self._is_closed = False

    def hold(self, home: Path) -> bool:
        """False: it is being deleted at this moment."""
        if home in self._descriptors or self._is_closed:
            return True
        try:
            descriptor = _hold(home)
        except BlockingIOError:
            return False
        if descriptor is not None:
            self._descriptors[home] = descriptor
        return True

    def close(self) -> None:
        self._is_closed = True
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _hold(home: Path) -> int | None:
    """Mark an environment as used until the descriptor is closed. Raises BlockingIOError while it is being deleted.

    None if that is not possible: there is none, no descriptor is left, or nobody can write to the cache.
    """
    try:
        descriptor = os.open(home / USED, _FLAGS | os.O_CREAT, 0o666)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.utime(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def find_environments(cache: Path) -> list[KeptEnvironment]:
    """The environments in a cache, the one that was used last first."""
    homes = (cache / "environments").glob("*/") if (cache / "environments").is_dir() else ()
    found = [_environment(home) for home in homes if any(home.glob("venv-*"))]
    return sorted(found, key=lambda it: -it.last_used)


def delete_environment(home: Path) -> bool:
    """Delete an environment, unless a program uses or makes it. Whether it is deleted.

    The files of the locks stay: others may wait for them.
    """
    with _locked(home / "lock", os.O_CREAT) as is_ours, _locked(home / USED, os.O_CREAT) as is_unused:
        if not (is_ours and is_unused):
            return False
        for entry in [*home.glob("complete*"), *home.glob("venv-*")]:  # `complete` first: then nobody begins to use it
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        return not any(home.glob("venv-*"))


def size_of(path: Path) -> int:
    """The bytes of a file, or of all files below a directory, each counted once."""
    if not path.is_dir():
        return path.lstat().st_size
    sizes: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # deleted meanwhile
                status = Path(folder, name).lstat()
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def _environment(home: Path) -> KeptEnvironment:
    metadata = None
    with suppress(OSError, ValueError):
        metadata = read_metadata(read_regular_file(home / "script.py", _MAX_SCRIPT).decode())
    dependencies = (metadata or {}).get("dependencies", [])
    used = home / USED
    with _locked(used) as is_unused:
        last_used = (used if used.exists() else home).stat().st_mtime
    names = tuple(str(it).partition("@")[0].strip() for it in dependencies)  # no URLs: they may have passwords
    return KeptEnvironment(home, names, size_of(home), last_used, not is_unused)


@contextmanager
def _locked(path: Path, more_flags: int = 0) -> Iterator[bool]:
    """Try to lock a file for this block alone. A file that does not exist is locked by nobody."""
    try:
        descriptor = os.open(path, _FLAGS | more_flags, 0o666)
    except FileNotFoundError:
        yield True
        return
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_locked = True
    except OSError:
        is_locked = False
    try:
        yield is_locked
    finally:
        os.close(descriptor)
