"""What a host that was killed has left behind: its workers and servers, until its watchdog has killed them.

Another program that goes on with the work of a dead host must not begin before that. They are found as the watchdog
finds them, by their tag, and so is the watchdog itself, which ends when it has proved that nothing is left. Processes
in a container beside this one are not seen.
"""

from __future__ import annotations

import os
import re
import select
import time
from contextlib import suppress
from typing import Final

from toolrun.processes.process_table import PROC, innermost_pid, is_supported
from toolrun.processes.tag import TAG

_UNSEEN: Final = 0.5
"""Seconds that orphans get to die on a system that does not show them."""


def wait_for_orphans(host: int, timeout: float) -> bool:
    """Wait until everything has ended that a program with this pid has left behind. Whether that is so."""
    end = time.monotonic() + timeout
    if not is_supported():
        time.sleep(min(_UNSEEN, timeout))
        return True
    while orphans := find_orphans(host):
        for pid in orphans:
            if not _wait(pid, end - time.monotonic()):
                return False
    return True


def find_orphans(host: int) -> list[int]:
    """The processes that belong to a program with this pid, if that program has ended."""
    if not is_supported():
        return []
    mark = re.compile(rf"(?:^|\0){TAG}=({host}-[0-9a-f]+):".encode())
    engines: dict[bytes, list[tuple[int, str]]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):  # it has ended meanwhile, or belongs to another user
                # A worker and what it starts have the tag in their environment, the watchdog among its arguments.
                found = mark.search((entry / "environ").read_bytes()) or mark.search((entry / "cmdline").read_bytes())
                if found is not None:
                    parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                    engines.setdefault(found[1], []).append((int(entry.name), parent))
    # A program that lives may have the pid of one that died before; its watchdog and its workers are its children.
    return [
        pid
        for processes in engines.values()
        if not any(innermost_pid(parent) == str(host) for _, parent in processes)
        for pid, _ in processes
    ]


def _wait(pid: int, timeout: float) -> bool:
    """Whether a process, which is not a child of ours, has ended within so many seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ending = select.poll()
        ending.register(handle, select.POLLIN)
        return bool(ending.poll(max(0.0, timeout) * 1000))
    finally:
        os.close(handle)
