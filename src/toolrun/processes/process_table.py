"""The worker processes of this machine, seen from outside the programs that started them.

Every worker has a mark in its environment, and all that it starts inherits it. What only its program knows of a worker,
the program tells (`board.py`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolrun.processes.engine import SERVER_VARIABLE
from toolrun.processes.local import MARKER
from toolrun.processes.status_file import Told, read_boards
from toolrun.scripts.isolated import VARIABLE

_ACTIVITIES: Final = {"R": "running", "S": "waiting", "D": "waiting", "I": "waiting", "T": "stopped", "t": "stopped"}
_WORKER: Final = ("worker", "__main__.py")
PROC = Path("/proc")
"""Where the system tells of processes."""


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker process, with all that it started."""

    id: str
    """The mark of the worker, which all that it started has too. None has it again."""
    script: str
    """The path of the script; of an isolated function the path of its module, and its name."""
    pid: int
    host: int
    """The process that started it; 1 or so if that has gone."""
    activity: str
    """What the process does, whether for a call or not: running, waiting or stopped."""
    age: float
    """Seconds."""
    memory: int
    """Bytes, of all its processes."""
    processes: int
    """How many there are: itself, and what it started."""
    told: Told | None
    """What its host tells of it, as it was a second ago at most. None: the host tells nothing, or has gone."""


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    activity: str
    age: float
    memory: int
    mark: str
    script: str
    """Empty for what a worker started."""


def can_survey() -> bool:
    """Whether this system tells what the environment of a process is."""
    return sys.platform == "linux" and (PROC / "self" / "environ").exists()


def find_workers() -> list[SeenWorker]:
    """This user's workers, the oldest first. What a worker left behind when it died counts as one, by its oldest."""
    groups: dict[str, list[_Process]] = {}
    for process in _marked():
        groups.setdefault(process.mark, []).append(process)
    leaders = [max(group, key=lambda process: (bool(process.script), process.age)) for group in groups.values()]
    told: dict[str, Told] = {}
    for host in {leader.parent for leader in leaders}:
        told |= read_boards(PROC / str(host))
    found = [_worker(leader, groups[leader.mark], told.get(leader.mark)) for leader in leaders]
    return sorted(found, key=lambda worker: (-worker.age, worker.pid))


def _worker(leader: _Process, group: list[_Process], told: Told | None) -> SeenWorker:
    return SeenWorker(
        id=leader.mark,
        script=leader.script or "(left behind by a worker)",
        pid=leader.pid,
        host=leader.parent,
        activity=leader.activity,
        age=leader.age,
        memory=sum(process.memory for process in group),
        processes=len(group),
        told=told,
    )


def _marked() -> Iterator[_Process]:
    uptime = float((PROC / "uptime").read_text().split()[0])
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile, or is another user's
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
    mark = variables.get(MARKER)
    if mark is None:
        return None
    command = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    # The name of the program, which may contain anything, stands in parentheses before the fields.
    fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return _Process(
        pid=int(entry.name),
        parent=int(fields[1]),
        activity=_ACTIVITIES.get(fields[0], fields[0]),
        age=max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")),
        memory=int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        mark=mark,
        script=_script(command, variables),
    )


def _script(command: list[str], variables: dict[str, str]) -> str:
    """What a worker runs; nothing for a process that is no worker."""
    if SERVER_VARIABLE in variables:
        return f"MCP server {variables[SERVER_VARIABLE]}"
    if len(command) < 3 or Path(command[1]).parts[-2:] != _WORKER:
        return ""
    with suppress(KeyError, ValueError, TypeError):
        target = json.loads(variables[VARIABLE])
        return f"{target['path']}:{target['function']}"
    return command[2]
