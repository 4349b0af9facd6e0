"""Tells when the files of a project may have changed. Knows patterns and folders, not what the files hold."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple


class FileStamp(NamedTuple):
    """What changes when a file is written or replaced."""

    is_catalog: bool
    content: tuple[int, int, int] | None
    """Time, size and inode. None: it cannot be examined."""


_LOOK_EVERY: Final = 2.0
"""Seconds after which the files may have changed although the system has reported nothing, as on network drives."""


def stamp_of(path: Path, *, is_catalog: bool) -> FileStamp:
    try:
        status = path.stat()
    except OSError:
        return FileStamp(is_catalog, None)
    return FileStamp(is_catalog, (status.st_mtime_ns, status.st_size, status.st_ino))


async def possible_changes(root: Path, patterns: tuple[str, ...]) -> AsyncIterator[None]:
    """Ends a step when a file that matches the patterns, or a folder with such files, may have changed."""
    from watchfiles import awatch

    options: Any = {"recursive": False, "watch_filter": None, "raise_interrupt": False}
    while True:
        folders = await asyncio.to_thread(_folders, root, patterns)
        changes = awatch(*folders, rust_timeout=int(_LOOK_EVERY * 1000), yield_on_timeout=True, **options)
        try:
            async for _ in changes:
                yield
                if await asyncio.to_thread(_folders, root, patterns) != folders:
                    break  # also if one was replaced: the system does not report on the new one
        except OSError:  # a folder is gone, or the system watches no more
            await asyncio.sleep(_LOOK_EVERY)
            yield


def _folders(root: Path, patterns: Iterable[str]) -> dict[Path, int]:
    """The folders that may have matching files, each with its inode. What does not exist yet appears in the root."""
    found = {root: root.stat().st_ino}
    for pattern in patterns:
        parts = Path(pattern).parts[:-1]
        fixed = next((index for index, part in enumerate(parts) if "*" in part or "?" in part or "[" in part), None)
        top = root.joinpath(*parts[:fixed])
        for folder in _below(top) if fixed is not None else [top]:
            try:
                found[folder] = folder.stat().st_ino
            except OSError:
                continue
    return found


def _below(top: Path) -> Iterable[Path]:
    for folder, names, _ in os.walk(top):
        names[:] = [name for name in names if not name.startswith(".") and name != "__pycache__"]
        yield Path(folder)
