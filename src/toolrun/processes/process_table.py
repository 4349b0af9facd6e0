"""The worker processes of this machine, read from the system's process table and not from the programs they belong to.

A process shows its tag and its label in its environment (`tag.py`). Its host publishes the status (`status_file.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolrun.processes.engine import WorkerStatus
from toolrun.processes.status_file import read_status
from toolrun.processes.tag import LABEL, TAG, host_of

_ACTIVITIES: Final = {"R": "running", "S": "waiting", "D": "waiting", "I": "waiting", "T": "stopped", "t": "stopped"}
_ORPHANED: Final = "(left behind by a worker)"
PROC = Path("/proc")
"""Where the system shows its processes."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker process, together with its descendants."""

    tag: str
    """Unique: no other worker ever has it."""
    label: str
    """The path of the script; for an isolated function the path of its module and its name; for a server its name."""
    pid: int
    host: int
    """The parent process: the program that started the worker, or 1 if that has ended."""
    activity: str
    """What the process does, for a call or not: running, waiting or stopped."""
    age: float
    """Seconds."""
    memory: int
    """Bytes, including descendants."""
    processes: int
    """The worker and its descendants."""
    status: WorkerStatus | None
    """At most a second old. None: the host publishes none, or has ended."""


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    activity: str
    age: float
    memory: int
    tag: str
    label: str
    """Empty for a descendant of a worker."""


def is_supported() -> bool:
    """Whether this system shows the environment of processes."""
    return sys.platform == "linux" and (PROC / "self" / "environ").exists()


def find_workers() -> list[WorkerProcess]:
    """This user's workers, oldest first. Processes that a dead worker left behind count as one, led by the oldest."""
    groups: dict[str, list[_Process]] = {}
    for process in _tagged():
        groups.setdefault(process.tag, []).append(process)
    leaders = [max(group, key=lambda process: (bool(process.label), process.age)) for group in groups.values()]
    status: dict[str, WorkerStatus] = {}
    for host in {leader.parent for leader in leaders}:
        status |= read_status(PROC / str(host))
    found = [_worker(leader, groups[leader.tag], status.get(leader.tag)) for leader in leaders]
    return sorted(found, key=lambda worker: (-worker.age, worker.pid))


def _worker(leader: _Process, group: list[_Process], status: WorkerStatus | None) -> WorkerProcess:
    return WorkerProcess(
        tag=leader.tag,
        label=leader.label or _ORPHANED,
        pid=leader.pid,
        host=leader.parent,
        activity=leader.activity,
        age=leader.age,
        memory=sum(process.memory for process in group),
        processes=len(group),
        status=status,
    )


def _tagged() -> Iterator[_Process]:
    uptime = float((PROC / "uptime").read_text().split()[0])
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile, or belongs to another user
                process = _read(entry, uptime)
                if process is not None:
                    yield process


def _read(entry: Path, uptime: float) -> _Process | None:
    if entry.stat().st_uid != os.getuid():
        return None
    variables = dict(
        variable.partition("=")[::2]
        for variable in (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
    )
    tag = variables.get(TAG)
    if tag is None:
        return None
    # The name of the program, which may contain anything, stands in parentheses before the fields.
    fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return _Process(
        pid=int(entry.name),
        parent=int(fields[1]),
        activity=_ACTIVITIES.get(fields[0], fields[0]),
        age=max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")),
        memory=int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        tag=tag,
        label=variables.get(LABEL, "") if _innermost_pid(fields[1]) == host_of(tag) else "",
    )


def _innermost_pid(pid: str) -> str:
    """The number that a process has for itself, which in a container is not the one that it has here."""
    with suppress(OSError):
        for line in (PROC / pid / "status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1]
    return pid
