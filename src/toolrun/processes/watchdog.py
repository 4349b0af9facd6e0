"""Finds and kills tagged processes: for the host after a worker has died, and in place of a host that was killed.

usage: watchdog.py TAG, with the host at the other end of standard input. When the host ends, so does standard input,
and the watchdog kills all processes with the tag. Standard library only.

A process can fork, leave its group and die while others are inspected, so one pass is not enough. /proc lists processes
by pid, in the order of their creation, so a process that is alive at the end of the listing is in it. A pass that found
every listed process alive and untagged proves that there is no tagged one. A pass that came too late for one of them
proves nothing, and is followed by a pass over the new processes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from time import thread_time


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


def count_tagged(prefix: bytes) -> Counter[bytes]:
    """How many processes have a variable that begins with the prefix, by the rest of its value."""
    counts: Counter[bytes] = Counter()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        _, found, rest = (b"\0" + _read(pid, "environ")).partition(b"\0" + prefix)
        if found:
            counts[rest.partition(b"\0")[0]] += 1
    return counts


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
    while os.read(0, 4096):
        pass
    kill_tagged(os.fsencode(sys.argv[1]), 10.0)


if __name__ == "__main__":
    main()
