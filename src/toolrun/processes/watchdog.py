"""Finds what bears the mark of a worker, and kills it: for the host when a worker has died, and in place of the host.

usage: watchdog.py MARK, with the host at the other end of standard input. When that ends, the host is gone, and all who
bear the mark go too. Standard library only.

A process can fork, move out of its group and die while others are looked at, so one look is not enough. /proc lists
processes by their numbers, which is the order of their birth, so whoever is alive at the end of the listing is in it.
If a look found everybody in the listing alive and without the mark, then nobody bears it. If it came too late for
somebody, it proves nothing, and is followed by another at those who are new.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from time import thread_time


def kill_marked(mark: bytes, limit: float) -> bool:
    """Kill all whose environment has a variable that begins with the mark. Whether it is sure that none is left.

    A mark that ends with a zero byte is a whole variable. The limit is in seconds of computing, so that it does not
    pass while a crowd that is to be killed keeps the processor busy.
    """
    if sys.platform != "linux":
        return True  # there is no way to look
    end = thread_time() + limit
    known = {str(os.getpid())}
    while not _look(b"\0" + mark, known):
        if thread_time() > end:
            return False
    return True


def count_marked(mark: bytes) -> Counter[bytes]:
    """How many processes have a variable that begins with the mark, by what follows."""
    counts: Counter[bytes] = Counter()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        _, found, rest = (b"\0" + _read(pid, "environ")).partition(b"\0" + mark)
        if found:
            counts[rest.partition(b"\0")[0]] += 1
    return counts


def last_pid() -> int:
    """The number of the process or thread that was started last. They begin again from below after the highest."""
    with open("/proc/loadavg", "rb", buffering=0) as file:
        return int(file.read().split()[-1])


def _look(mark: bytes, known: set[str]) -> bool:
    """Look at all processes that are not known yet, the youngest first. Whether none of them can bear the mark."""
    is_sure = True
    for pid in reversed(os.listdir("/proc")):  # not sorted: the youngest may be gone by then
        if pid in known or not pid.isdigit():
            continue
        environment = _read(pid, "environ")
        if mark in b"\0" + environment + b"\0":
            _kill_group(int(pid))
            is_sure = False
        elif environment or _has_none(pid):
            known.add(pid)
        is_sure = is_sure and bool(environment)
    return is_sure


def _has_none(pid: str) -> bool:
    """Whether a process that shows no variables has none: it has ended, or was started so, or is a part of the kernel.

    Otherwise it is about to run another program, and shows none before that has begun.
    """
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return True
    size, start, end = fields[20], fields[47], fields[48]  # its memory, and where in it the variables are
    return size == b"0" or start == end != b"0"


def _read(pid: str, name: str) -> bytes:
    """What `/proc` tells of a process; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except PermissionError:  # another user's
        return b"?"


def _kill_group(pid: int) -> None:
    """Kill a process with all of its group, none of which can fork its way out of that."""
    try:
        group = os.getpgid(pid)
        if group == os.getpgid(0):  # cannot be, since a worker leads a session of its own; but it would be us
            os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    kill_marked(os.fsencode(sys.argv[1]), 10.0)


if __name__ == "__main__":
    main()
