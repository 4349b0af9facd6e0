"""The status of a program's workers, in a file that `toolrun workers`, another program, can read.

The file is in memory (memfd), held open by the program, and found by the reader among the program's open files in
/proc. So nothing is on disk, no other user can read it, and nothing remains when the program ends, however it ends. A
new version is a new file that replaces the old one under the same descriptor: a reader gets all of one version.

A call does not touch the file. It is updated once a second, if something has changed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Final

from toolrun.processes.engine import StatusReporter, WorkerStatus
from toolrun.processes.forked_child import no_fork

_NAME: Final = "toolrun-workers"
_LINK: Final = f"/memfd:{_NAME} (deleted)"
"""How /proc shows such a file."""
_INTERVAL: Final = 1.0
"""Seconds between two updates."""


class StatusFile:
    """Publishes the status of workers from `add` to `remove`. Belongs to the event loop of its engine.

    Without memfd (outside Linux), or without a free descriptor, nothing is published.
    """

    def __init__(self) -> None:
        self._workers: dict[str, StatusReporter] = {}
        self._content = b""
        self._file: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, tag: str, reporter: object) -> None:
        """Ignores a listener that cannot report a status."""
        if isinstance(reporter, StatusReporter) and hasattr(os, "memfd_create"):
            self._workers[tag] = reporter
            reporter.ready.add_done_callback(lambda _: self._update_in(0.0))
            self._update_in(0.0)

    def remove(self, tag: str) -> None:
        self._workers.pop(tag, None)
        if self._workers:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._file is not None:
            os.close(self._file)
        self._timer, self._file, self._content = None, None, b""

    def leave_to_parent(self) -> None:
        """In a child that was forked: the workers are not its own."""
        if self._file is not None:
            os.close(self._file)
        self._workers, self._timer, self._file = {}, None, None

    def _update_in(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._workers:  # a worker may be gone before it was ready
            self._timer = asyncio.get_running_loop().call_later(delay, self._update)

    def _update(self) -> None:
        content = json.dumps({tag: astuple(worker.status()) for tag, worker in self._workers.items()}).encode()
        if content != self._content:
            with no_fork, suppress(OSError):  # no descriptor or no memory left: the next update tries again
                self._write(content)
                self._content = content
        self._update_in(_INTERVAL)

    def _write(self, content: bytes) -> None:
        with os.fdopen(os.memfd_create(_NAME), "wb", buffering=0) as draft:
            draft.write(content)
            if self._file is None:
                self._file = os.dup(draft.fileno())
            else:
                os.dup2(draft.fileno(), self._file, inheritable=False)


def read_status(process: Path) -> dict[str, WorkerStatus]:
    """The status of a program's workers by tag. `process` is the program's directory in /proc."""
    found: dict[str, WorkerStatus] = {}
    for file in _status_files(process):
        with suppress(OSError, ValueError, TypeError, AttributeError):  # gone, or in the format of another version
            found |= _read(file)
    return found


def _status_files(process: Path) -> Iterator[Path]:
    with suppress(OSError):  # the process has ended, or belongs to another user
        for entry in (process / "fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) == _LINK:
                    yield entry


def _read(file: Path) -> dict[str, WorkerStatus]:
    # The descriptor may be another file by now: one whose open blocks, or whose content is meant for others.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
        if str(Path(f"/proc/self/fd/{opened.fileno()}").readlink()) != _LINK:
            return {}
        content = json.loads(opened.read())
    return {tag: _status(*values) for tag, values in content.items()}


def _status(  # in the order of the fields
    state: object,
    calls: int,
    running: int,
    sandbox: object = "",
    node: object = "",
    replica: object = "",
    label: object = "",
    pid: int = 0,
    memory: int = 0,
    age: float = 0.0,
    *_: object,
) -> WorkerStatus:
    """Of a program with this version of toolrun, an older one, or a newer one that tells more."""

    def text(value: object) -> str:
        return value if isinstance(value, str) else ""

    return WorkerStatus(
        str(state),
        int(calls),
        int(running),
        text(sandbox),
        text(node),
        text(replica),
        text(label),
        int(pid),
        int(memory),
        float(age),
    )
