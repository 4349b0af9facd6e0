"""What a program tells of its workers to `toolrun workers`, which is another: the state of each, and its calls.

It stands in a file in memory (memfd) that the program holds open, and that `toolrun workers` finds among the open files
of the program in /proc. So nothing is on disk, no other user can read it, and nothing is left of it when the program
ends, in whichever way. A new version is a new file that takes the place of the one before, under the same number: who
reads gets all of one or all of the other.

A call does not touch it. The workers are looked at once a second, and what is told is written if it has changed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolrun.processes.engine import Listener
from toolrun.scripts.pool_state import State
from toolrun.scripts.pooled_worker import PooledWorker

_NAME: Final = "toolrun-workers"
_LINK: Final = f"/memfd:{_NAME} (deleted)"
"""How /proc shows such a file."""
_INTERVAL: Final = 1.0
"""Seconds between two looks."""
_WORDS: Final = {State.STARTING: "starting", State.DRAINING: "draining", State.ENDED: "ending"}


@dataclass(frozen=True, slots=True)
class Told:
    """What a program tells of one of its workers."""

    state: str
    """starting, ready, busy, draining (it gets no new calls, and ends with its last one) or ending."""
    calls: int
    """How many it has answered."""
    running: int
    """How many it has not answered yet."""


class Board:
    """Tells of the workers that are added, until they are removed. Belongs to one event loop.

    Where there are no such files (outside Linux), or no descriptor is left for one, nothing is told.
    """

    def __init__(self) -> None:
        self._members: dict[str, PooledWorker] = {}
        self._content = b""
        self._file: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, mark: str, listener: Listener) -> None:
        """`listener` is who hears from the worker; of its calls only a member of a pool knows."""
        if isinstance(listener, PooledWorker) and hasattr(os, "memfd_create"):
            self._members[mark] = listener
            listener.ready.add_done_callback(lambda _: self._look_in(0.0))
            self._look_in(0.0)

    def remove(self, mark: str) -> None:
        self._members.pop(mark, None)
        if self._members:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._file is not None:
            os.close(self._file)
        self._timer, self._file, self._content = None, None, b""

    def _look_in(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._members:  # a worker may be gone before it was ready
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        told = {mark: (_state(it), it.calls, it.load) for mark, it in self._members.items()}
        content = json.dumps(told).encode()
        if content != self._content:
            with suppress(OSError):  # no descriptor or no memory left: the next look is another chance
                self._write(content)
                self._content = content
        self._look_in(_INTERVAL)

    def _write(self, content: bytes) -> None:
        with os.fdopen(os.memfd_create(_NAME), "wb", buffering=0) as draft:
            draft.write(content)
            if self._file is None:
                self._file = os.dup(draft.fileno())
            else:
                os.dup2(draft.fileno(), self._file, inheritable=False)


def read_boards(process: Path) -> dict[str, Told]:
    """What a process tells of its workers, by their marks. `process` is its directory in /proc."""
    told: dict[str, Told] = {}
    for file in _boards(process):
        with suppress(OSError, ValueError, TypeError, AttributeError):  # gone, or by a version that writes otherwise
            told |= _read(file)
    return told


def _boards(process: Path) -> Iterator[Path]:
    with suppress(OSError):  # it has ended, or is another user's
        for entry in (process / "fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) == _LINK:
                    yield entry


def _read(file: Path) -> dict[str, Told]:
    # The number may be that of another file by now: one that makes an open wait, or has what is meant for others.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as board:
        if str(Path(f"/proc/self/fd/{board.fileno()}").readlink()) != _LINK:
            return {}
        content = json.loads(board.read())
    return {mark: Told(str(state), int(calls), int(load)) for mark, (state, calls, load) in content.items()}


def _state(member: PooledWorker) -> str:
    return _WORDS.get(member.state) or ("busy" if member.load else "ready")
