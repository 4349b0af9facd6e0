"""Finds and kills tagged processes: for the host after a worker has died, and in place of a host that was killed.

usage: watchdog.py HOST TAG DIRECTORY [LINGER], with the host, whose child it is, at the other end of standard input.
When the host ends, the watchdog kills all processes with the tag and removes the directory, if one is named. HOST is
the host's pid. The watchdog looks at the process itself where the system lets it (a pidfd): another one that was forked
from the host may hold the pipe open. Before the tagged processes it kills their descendants, tagged or not: as long as
the first process of a worker lives, orphans are left to it, and can be found. Standard library only.

Workers on other machines end by themselves, within LINGER seconds of the end of the host. The watchdog stays for so
long, and whoever waits until nothing is left of the host (`orphans.py`) waits for it.

A process can fork, leave its group and die while others are inspected, so one pass is not enough. /proc lists processes
by pid, in the order of their creation, so a process that is alive at the end of the listing is in it. A pass that found
every listed process alive and untagged proves that there is no tagged one. A pass that came too late for one of them
proves nothing, and is followed by a pass over the new processes.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from time import monotonic, sleep, thread_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GRACE = 0.1
"""Seconds for the first process of each worker, which the end of the host wakes, too: it knows all that is below it."""
_PAUSE = 0.01
"""Seconds that killed processes get to die and be reaped, before the next look."""
_LIMIT = 10.0
"""Seconds for each of the two searches."""


def kill_tagged(tag: bytes, limit: float) -> bool:
    """Kill all processes whose environment has a variable that begins with the tag. Whether certainly none is left.

    A tag that ends with a zero byte is a whole variable. The limit is in seconds of CPU time, so that it does not pass
    while the processes to be killed keep the processor busy.
    """
    if sys.platform != "linux":
        return True  # the system has no /proc
    end = thread_time() + limit
    known = {str(os.getpid())}
    while not _kill_pass(b"\0" + tag, known):
        if thread_time() > end:
            return False
    return True


def find_tagged(prefix: bytes) -> dict[bytes, set[int]]:
    """The processes that have a variable that begins with the prefix, by the rest of its value."""
    tagged: dict[bytes, set[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        _, found, rest = (b"\0" + _read(pid, "environ")).partition(b"\0" + prefix)
        if found:
            tagged.setdefault(rest.partition(b"\0")[0], set()).add(int(pid))
    return tagged


def find_children() -> dict[int, list[int]]:
    """The children of all processes that have some."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        if fields:
            children.setdefault(int(fields[1]), []).append(int(pid))
    return children


def descendants(pid: int, children: Mapping[int, Sequence[int]]) -> set[int]:
    """A process and all that it has started, directly or not."""
    found, new = {pid}, [pid]
    while new:
        new = [child for parent in new for child in children.get(parent, ()) if child not in found]
        found.update(new)
    return found


def kill_below_tagged(tag: bytes, limit: float) -> None:
    """Kill what descends from tagged processes, and not the topmost of these: who adopts orphans must live longer.

    The first process of a worker does the same, and faster than processes can fork; it may have been stopped. A
    descendant need not have the tag. The limit is in seconds.
    """
    end = monotonic() + limit
    while monotonic() < end:
        children = find_children()
        tagged = {int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if tag in b"\0" + _read(pid, "environ")}
        topmost = tagged - {child for pid in tagged for child in children.get(pid, ())}
        below = {it for pid in topmost for it in descendants(pid, children)} - topmost
        alive = [pid for pid in below if _read(str(pid), "stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"])]
        if not alive:
            return
        for pid in alive:
            _send(pid, signal.SIGKILL)
        for pid in topmost:
            _send(pid, signal.SIGCONT)
        sleep(_PAUSE)


def last_pid() -> int:
    """The pid of the newest process or thread. Pids wrap around after the highest."""
    with open("/proc/loadavg", "rb", buffering=0) as file:
        return int(file.read().split()[-1])


def _kill_pass(tag: bytes, known: set[str]) -> bool:
    """Inspect all processes that are not known yet, newest first, and kill the tagged. Whether there can be none."""
    is_sure = True
    for pid in reversed(os.listdir("/proc")):  # not sorted: the newest may be gone by then
        if pid in known or not pid.isdigit():
            continue
        environment = _read(pid, "environ")
        if tag in b"\0" + environment + b"\0":
            _kill_group(int(pid))
            is_sure = False
        elif environment or _has_no_variables(pid):
            known.add(pid)
        is_sure = is_sure and bool(environment)
    return is_sure


def _has_no_variables(pid: str) -> bool:
    """Whether a process that shows no variables has none: it has ended, was started without, or is a kernel thread.

    Otherwise it is in the middle of an exec, and shows none before the new program runs.
    """
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return True
    size, start, end = fields[20], fields[47], fields[48]  # its memory, and where the variables are in it
    return size == b"0" or start == end != b"0"


def _read(pid: str, name: str) -> bytes:
    """A file of a process in /proc; empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except PermissionError:  # belongs to another user
        return b"?"


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _kill_group(pid: int) -> None:
    """Kill a process with its whole group, which none of them can fork out of."""
    try:
        group = os.getpgid(pid)
        if group == os.getpgid(0):  # impossible, since a worker leads its own session; but it would be us
            os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wait_for_end(int(sys.argv[1]))
    tag = os.fsencode(sys.argv[2])
    if sys.platform == "linux":
        sleep(_GRACE)
        kill_below_tagged(b"\0" + tag, _LIMIT)
    kill_tagged(tag, _LIMIT)
    if sys.argv[3]:
        import shutil

        shutil.rmtree(sys.argv[3], ignore_errors=True)
    if sys.argv[4:]:
        sleep(float(sys.argv[4]))


def wait_for_end(host: int) -> None:
    """Wait for the end of the host or of standard input, whichever comes first."""
    try:
        ends = [0, os.pidfd_open(host)]
    except (AttributeError, OSError):  # not on this system, or not any more
        ends = [0]
    # If the host has ended before that, this process has another parent by now, and the number may be anybody's.
    while os.getppid() == host:
        ready, _, _ = select.select(ends, [], [])
        if ready != [0] or not os.read(0, 4096):
            return


if __name__ == "__main__":
    main()
