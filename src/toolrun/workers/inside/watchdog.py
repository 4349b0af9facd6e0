"""Ends all workers of a host that was killed: reads its input until the host is gone, then kills what bears its mark.

usage: watchdog.py VARIABLE PREFIX, with the host at the other end of standard input. Standard library only.
"""

import os
import signal
import sys


def marked(wanted):  # type: (bytes) -> list[int]
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if any(variable.startswith(wanted) for variable in file.read().split(b"\0")):
                        found.append(int(entry))
            except OSError:
                continue
    return found


def main():  # type: () -> None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    wanted = f"{sys.argv[1]}={sys.argv[2]}".encode()
    for _ in range(100):
        pids = marked(wanted)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


if __name__ == "__main__":
    main()
