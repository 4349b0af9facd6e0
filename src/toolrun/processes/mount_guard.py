"""Notices when a file that the walls of a worker cover has been replaced. Linux only.

A mount that hides or protects a file belongs to the file, not to its name. A program outside that replaces the file, as
editors and git do, takes the mount away with the old one, and the worker sees the new one without any. Landlock cannot
make an exception inside of a directory that may be written, so such a worker has to go; the next one covers the new
file. Four times a second, while workers exist, the guard compares what is at these paths. A call costs nothing.

The guard holds a descriptor of each file, once for all workers: otherwise the number of a file that was removed would
be free for the next one, and both would look the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

_INTERVAL: Final = 0.25
"""Seconds between two looks."""
_FLAGS: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC

Covered: TypeAlias = frozenset[tuple[str, int, int]]
"""Paths, and the device and number of what is there."""


class MountGuard:
    """Tells of workers whose walls have an opening. Belongs to the event loop of its engine."""

    def __init__(self) -> None:
        self._workers: dict[str, tuple[Covered, Callable[[], None]]] = {}
        self._held: dict[tuple[str, int, int], tuple[int, int]] = {}
        """Descriptors, and how many workers need them."""
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, paths: Iterable[Path]) -> Covered:
        """What is at these paths, before a worker covers it; without what does not exist. To be released."""
        found = set()
        for path in {str(path) for path in paths}:
            with suppress(OSError):  # it is not there, or there is no descriptor left
                descriptor = os.open(path, _FLAGS)
                status = os.fstat(descriptor)
                key = path, status.st_dev, status.st_ino
                found.add(key)
                known, users = self._held.get(key, (descriptor, 0))
                self._held[key] = known, users + 1
                if known != descriptor:
                    os.close(descriptor)
        return frozenset(found)

    def release(self, covered: Covered) -> None:
        for key in covered:
            descriptor, users = self._held.pop(key)
            if users > 1:
                self._held[key] = descriptor, users - 1
            else:
                os.close(descriptor)

    def add(self, tag: str, covered: Covered, on_open: Callable[[], None]) -> None:
        """`on_open` is called at each look after something was replaced."""
        if covered:
            self._workers[tag] = covered, on_open
            if self._timer is None:
                self._look_later()

    def remove(self, tag: str) -> None:
        self._workers.pop(tag, None)
        if not self._workers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._look)

    def _look(self) -> None:
        self._look_later()
        replaced = {key for key in self._held if _is_replaced(*key)}
        if replaced:
            for covered, on_open in list(self._workers.values()):
                if not covered.isdisjoint(replaced):
                    on_open()


def _is_replaced(path: str, device: int, number: int) -> bool:
    """Whether something else is there. Where nothing is, nothing can be seen."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) != (device, number)
