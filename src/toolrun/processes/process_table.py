"""The worker processes of this machine, read from the system's process table and not from the programs they belong to.

A process shows its tag and its label in its environment (`tag.py`). Its host publishes the status (`status_file.py`).

A worker that is supervised (`worker/sandbox.py`, bubblewrap) is not the child of its host, but has a first process
between them, which only waits. In a PID namespace there is also a PID 1, and the worker is PID 2; without one, the
worker is the oldest child of the first process. Those who wait are not counted.
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
_SUPERVISING: Final = b"/worker/__main__.py\0--sandbox\0"
"""In the command line of a first process."""
_INIT, _WORKER = 1, 2
"""Pids in a namespace of our own."""
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
    """The program that started the worker, or 1 if that has ended."""
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
class RemoteProcess:
    """A worker process on a node of a cluster, as its gateway publishes it."""

    host: int
    """The gateway."""
    status: WorkerStatus


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    activity: str
    age: float
    memory: int
    tag: str
    label: str
    """Empty for a process that is not a child of the host."""
    own_pid: int
    """The number that it has for itself."""
    depth: int
    """How many PID namespaces it is in."""
    is_supervising: bool
    """Whether it waits for the worker, its child or grandchild."""


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
    found = (_worker(leader, groups[leader.tag], status.get(leader.tag)) for leader in leaders)
    return sorted(filter(None, found), key=lambda worker: (-worker.age, worker.pid))


def find_remote_workers() -> list[RemoteProcess]:
    """The workers on nodes of clusters that this user's programs here have started, in the order of their ages."""
    found: list[RemoteProcess] = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                if entry.stat().st_uid == os.getuid():
                    host = int(entry.name)
                    found += [RemoteProcess(host, it) for it in read_status(entry).values() if it.node]
    return sorted(found, key=lambda it: -it.status.age)


def _worker(leader: _Process, group: list[_Process], status: WorkerStatus | None) -> WorkerProcess | None:
    worker, group = _supervised(leader, group) if leader.is_supervising else (leader, group)
    if worker is None:
        return None
    return WorkerProcess(
        tag=leader.tag,
        label=leader.label or _ORPHANED,
        pid=worker.pid,
        host=leader.parent,
        activity=worker.activity,
        age=leader.age,
        memory=sum(process.memory for process in group),
        processes=len(group),
        status=status,
    )


def _supervised(first: _Process, group: list[_Process]) -> tuple[_Process | None, list[_Process]]:
    """The worker behind its first process, and all that do not just wait for it.

    None for a moment after the start, and at the end, while the first process makes sure that nothing is left.
    """
    inside = {process.own_pid: process for process in group if process.depth == first.depth + 1}
    worker = inside.get(_WORKER)
    if worker is None:
        children = [process for process in group if process.parent == first.pid and process is not inside.get(_INIT)]
        worker = max(children, key=lambda process: (process.age, -process.pid), default=None)
    return worker, [process for process in group if process not in (first, inside.get(_INIT))]


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
    numbers = _pids(entry.name)
    return _Process(
        pid=int(entry.name),
        parent=int(fields[1]),
        activity=_ACTIVITIES.get(fields[0], fields[0]),
        age=max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")),
        memory=int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        tag=tag,
        label=variables.get(LABEL, "") if innermost_pid(fields[1]) == host_of(tag) else "",
        own_pid=int(numbers[-1]),
        depth=len(numbers),
        is_supervising=_is_supervising(entry),
    )


def _is_supervising(entry: Path) -> bool:
    with suppress(OSError):
        return _SUPERVISING in (entry / "cmdline").read_bytes()
    return False


def supervised_pid(first: int) -> int | None:
    """The worker behind its first process, if it was started and the system shows it."""
    depth = len(_pids(str(first)))
    for child in _children(str(first)):
        numbers = _pids(child)
        if len(numbers) == depth or int(numbers[-1]) == _WORKER:
            return int(child)  # without a namespace: the oldest
        for grandchild in _children(child):  # of bubblewrap, whose PID 1 starts the worker
            if int(_pids(grandchild)[-1]) == _WORKER:
                return int(grandchild)
    return None


def _children(pid: str) -> list[str]:
    """The oldest first."""
    with suppress(OSError):
        return (PROC / pid / "task" / pid / "children").read_text().split()
    return []


def innermost_pid(pid: str) -> str:
    """The number that a process has for itself, which in a container is not the one that it has here."""
    return _pids(pid)[-1]


def _pids(pid: str) -> list[str]:
    """The numbers of a process in the PID namespaces that it is in, from here inwards."""
    with suppress(OSError):
        for line in (PROC / pid / "status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return line.split()[1:]
    return [pid]
